"""One Dafka cluster: towers, stores, producers and consumers over ZeroMQ (RFC 46).

Layout, from the bottom: `wire` and `records` turn bytes into values; `protocol` holds the roles as
machines without IO; `storage` keeps logs; `groups` says how far consumers are; `query` asks stores;
`transport` is ZeroMQ; `node` runs machines on it; `testing` runs them in a simulator; `cli` is the
command.
"""

from dafka.cluster import Cluster as Cluster
from dafka.errors import AddressInUseError as AddressInUseError
from dafka.errors import BufferFullError as BufferFullError
from dafka.errors import CommitError as CommitError
from dafka.errors import DafkaError as DafkaError
from dafka.errors import HoleError as HoleError
from dafka.errors import MisuseError as MisuseError
from dafka.errors import NotStoredError as NotStoredError
from dafka.errors import QueryError as QueryError
from dafka.errors import RebalancedError as RebalancedError
from dafka.errors import RecordError as RecordError
from dafka.errors import StorageError as StorageError
from dafka.model import Header as Header
from dafka.model import Partition as Partition
from dafka.model import Record as Record
from dafka.node.consumer import Consumer as Consumer
from dafka.node.consumer import ReceivedBatch as ReceivedBatch
from dafka.node.delivery import Delivery as Delivery
from dafka.node.producer import Producer as Producer
from dafka.node.store import Store as Store
from dafka.node.tower import Tower as Tower
from dafka.process.memory import keep_freed_memory as keep_freed_memory
from dafka.query.cluster_client import ClusterClient as ClusterClient
from dafka.transport.keys import Credentials as Credentials
from dafka.transport.keys import load_credentials as load_credentials
