"""The rig is a script too, and no package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
