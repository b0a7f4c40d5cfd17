"""The nodes: an ordinary ClientApp."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from shop_floor.task import make_network, partition, train_network

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the network of the server on the pictures of this node."""
    network = make_network()
    network.load_state_dict(message.content["arrays"].to_torch_state_dict())
    pictures, labels = partition(context.node_config["partition-id"])
    loss = train_network(
        network,
        pictures,
        labels,
        epochs=context.run_config["local-epochs"],
        batch_size=context.run_config["batch-size"],
        learning_rate=message.content["config"]["lr"],
    )
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(labels)})
    return Message(RecordDict({"arrays": ArrayRecord(network.state_dict()), "metrics": metrics}), reply_to=message)
