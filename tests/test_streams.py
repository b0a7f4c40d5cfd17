"""Random streams: what a seed draws never changes, and no purpose draws what another one does."""

import zlib

import numpy as np

from fedfloor.streams import (
    PolicyStream,
    Stream,
    dropout_seed,
    first_weights_seed,
    key_stream,
    policy_stream,
    run_stream,
    stream_seed,
)


def test_the_numbers_of_streams_never_change() -> None:
    assert {entry.name: entry.value for entry in Stream} == {
        "WEATHER": 1, "BATCH": 2, "BOUNDARY": 3, "UPLOAD": 4, "DROPOUT": 5,
    }  # fmt: skip
    assert {entry.name: entry.value for entry in PolicyStream} == {
        "PARTICIPATION": 3, "POWER_OF_CHOICE": 4, "TIFL": 5, "LYAPUNOV": 6, "OORT": 7,
    }  # fmt: skip


def test_streams_draw_what_their_seed_sequences_draw() -> None:
    batch = np.random.SeedSequence(9, spawn_key=(2, 7, 4, 0))
    assert run_stream(9, Stream.BATCH, 7, 4, 0).random() == np.random.default_rng(batch).random()
    assert stream_seed(9, Stream.BATCH, 7, 4, 0) == batch.generate_state(1)[0]
    assert policy_stream(9, 7, PolicyStream.OORT).random() == np.random.default_rng([9, 7, 7]).random()
    assert policy_stream(9, 7).random() == np.random.default_rng([9, 7]).random()
    key = np.random.SeedSequence(9, spawn_key=(zlib.crc32(b"floors[0].samples"),))
    assert key_stream(9, "floors[0].samples").random() == np.random.default_rng(key).random()
    assert dropout_seed(9, 7, 4) == np.random.SeedSequence([9, 7, 4]).generate_state(1)[0]
    assert first_weights_seed(0) == zlib.crc32(b"initial weights")


def test_no_two_streams_draw_the_same() -> None:
    streams = [run_stream(1, stream, 0, 0) for stream in Stream]
    streams += [policy_stream(1, 0), *(policy_stream(1, 0, policy) for policy in PolicyStream)]
    streams += [run_stream(1, Stream.BATCH, 0, 1), run_stream(2, Stream.BATCH, 0, 0), policy_stream(1, 1)]
    streams += [key_stream(1, "data"), key_stream(1, "data.test"), key_stream(2, "data")]
    assert len({stream.random() for stream in streams}) == len(streams)
