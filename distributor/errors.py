"""Every error `distributor` raises."""


class DistributorError(Exception):
    """Base of every error raised by `distributor`."""


class PlanError(DistributorError):
    """The topology has no such cluster or level; the operator asked for what it does not hold."""


class ProcessError(DistributorError):
    """A process of the topology cannot be started or kept running."""


class DataSetError(DistributorError):
    """The demo's data set is not installed, or not what it should be."""


class AuditError(DistributorError):
    """Clusters cannot be compared: one does not answer."""


class CommandError(DistributorError):
    """A distributor did not do what it was told: it does not answer, or it refuses."""


class RefusedCommandError(CommandError):
    """A distributor answers that it does not do, or does not understand, what it was told."""


class ArchiveError(DistributorError):
    """What executors need cannot be put together: something of it is not installed here."""
