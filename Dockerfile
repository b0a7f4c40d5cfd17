# One image for base station, gateways and devices: docs/deploy.md, section Containers.
FROM python:3.11-slim

# torch without CUDA; name another index to train on a GPU.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu

# The user owns the folders that volumes are mounted on, because a new volume takes the owner of its folder.
RUN useradd --create-home --uid 1000 fedfloor \
 && install --directory --owner=fedfloor --group=fedfloor --mode=0700 /certs /runs /state

WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN PIP_CONSTRAINT=/src/constraints.txt pip install --no-cache-dir --extra-index-url "$TORCH_INDEX" '.[deploy]'

USER fedfloor
WORKDIR /home/fedfloor
ENTRYPOINT ["fedfloor"]
CMD ["--help"]
