"""Real servers on one machine, without containers: for the demonstration, the tests and a developer's desk.

Each kind of server lives in `servers/`; `Sandbox` starts, stops, kills and shows them. Nothing of the data
path may import this.
"""

from databus.sandbox.progress import Progress, ProgressEvent, ProgressStep
from databus.sandbox.sandbox import Sandbox
from databus.sandbox.state import SandboxOptions
from databus.sandbox.status import ServerState, ServerStatus

__all__ = ["Progress", "ProgressEvent", "ProgressStep", "Sandbox", "SandboxOptions", "ServerState", "ServerStatus"]
