from .errors import DistributorError as DistributorError
from .link.node import LinkNode as LinkNode
from .operations.status import Status as Status
from .operations.status import status_of as status_of
from .verify.compare import verify as verify
from .verify.verdict import Verdict as Verdict
