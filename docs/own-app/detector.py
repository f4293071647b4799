from apps.contract import App
from compositions.model import Stage


class Detector(App):
    name = "detector"
    description = "Finds things."
    stages = (Stage("read"), Stage("detect", memory="2GB", setup="per-group"), Stage("draw"))

    def setup(self, stages):  # the names of the stages that this worker runs
        if "detect" in stages:
            self.model = "loaded"

    def teardown(self, stages):  # when the worker ends after its last item; not when it is killed
        self.model = None

    def read(self, path):
        return path

    def detect(self, path):
        return path, self.model

    def draw(self, found):
        return found
