import pytest

from dafka.groups.commit import Commit, CommitKey
from dafka.model import Partition
from distributor.committer import Committer
from distributor.group_survey import survey_group

pytestmark = pytest.mark.net

KEY = CommitKey("billing", Partition("orders", "PRODUCER"))


def test_what_clusters_know_of_a_group_and_which_do_not_answer(pair, monkeypatch):
    monkeypatch.setattr("distributor.group_survey.ANSWER_TIMEOUT_MS", 500)
    with pair.running(1):
        committer = Committer(pair.topology.clusters[0], "127.0.0.1")
        committer.write([(KEY, Commit(5, 1, 2))])
        committer.close()
        answers, silent = survey_group(pair.topology, "billing")
    assert answers.commits == {KEY.partition: Commit(5, 1, 2)}
    assert (answers.live, answers.error) == (False, "")
    assert list(answers.ends.values()) == [1]
    assert pair.topology.clusters[1].stores[0].query in silent.error
