"""An addon of mitmdump: tells how many flows it has read."""


class Count:
    def __init__(self) -> None:
        self.flows = 0

    def request(self, flow: object) -> None:
        self.flows += 1

    def done(self) -> None:
        print(f"{self.flows} flows")


addons = [Count()]
