"""An addon of mitmdump: tells how many flows it has read."""


class Count:
    def __init__(self):
        self.flows = 0

    def request(self, flow):
        self.flows += 1

    def done(self):
        print(f"{self.flows} flows")


addons = [Count()]
