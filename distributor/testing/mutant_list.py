"""The faults of `make mutants`: each a line or two that somebody might write."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault.

    Attributes:
        name: What is wrong, in a few words.
        file: Where, from the root.
        old: What stands there, once.
        new: What stands there in its place.
    """

    name: str
    file: str
    old: str
    new: str


MUTANTS = [
    Mutant(
        "a store acknowledges what its disk refused",
        "dafka/node/store.py",
        "            self._refused(error)\n            return AppendFailed(effect.token)",
        "            self._refused(error)\n            return Appended(effect.token)",
    ),
    Mutant(
        "a store goes on wherever anybody says that logs begin",
        "dafka/protocol/store.py",
        "self._keeping.asked_of(partition))\n        return [] if end is None",
        "self._keeping.asked_of(partition))\n        end = message.sequence\n"
        "        return [] if end is None",
    ),
    Mutant(
        "a forgotten partition begins again at 0",
        "dafka/node/store.py",
        "        ends = {partition: extent.start for partition, extent in recalled.items()}",
        "        ends: dict[Partition, int] = {}",
    ),
    Mutant(
        "what is forgotten is not acknowledged any more",
        "dafka/protocol/forgotten.py",
        "    acknowledgement = Publish(messages.Ack(topic, address, store, end - 1))",
        "    acknowledgement = Publish(messages.Ack(topic, address, store, 0))",
    ),
    Mutant(
        "a link does not ask what its target has forgotten",
        "distributor/link/holdings.py",
        "        theirs |= ended\n",
        "",
    ),
    Mutant(
        "other records under one name are taken for the same",
        "dafka/protocol/duplicate_producer.py",
        "    return ours == theirs",
        "    return True",
    ),
    Mutant(
        "two producers under one address are taken for one",
        "dafka/protocol/duplicate_producer.py",
        "    return behind is None or run is None or run.first == 0 or run == behind",
        "    return True",
    ),
    Mutant(
        "one store is enough for min_acks=2",
        "dafka/protocol/unacked.py",
        "        if len(ends) < self._min_acks:\n            return None\n"
        "        stored = sorted(ends, reverse=True)[self._min_acks - 1]",
        "        stored = max(ends)",
    ),
    Mutant(
        "what a store has said counts when it has come back without its disk",
        "dafka/protocol/unacked.py",
        "        acked = self._acked.pop(store, {})",
        "        acked = self._acked.get(store, {})",
    ),
    Mutant(
        "a producer forgets everything with the first ACK",
        "dafka/protocol/unacked.py",
        'count = bisect_right(window.batches, stored, key=attrgetter("end"))',
        "count = len(window.batches)",
    ),
    Mutant(
        "a producer publishes before its spool has it",
        "dafka/protocol/producer.py",
        "        self._spooled = settings.spooled",
        "        self._spooled = False",
    ),
    Mutant(
        "what no store has is delivered to whom asked for what stores have",
        "dafka/protocol/consumer.py",
        "        ready = self._inflow.take(partition, bound)",
        "        ready = self._inflow.take(partition)",
    ),
    Mutant(
        "what both ends have forgotten is copied again where it is heard of",
        "distributor/link/machine.py",
        "        return [(Side.TARGET, AskHeads(self._named))]",
        "        return [(Side.TARGET, AskHeads())]",
    ),
    Mutant(
        "a consumer forgets where partitions go on that stand still",
        "dafka/protocol/consumer.py",
        "                idle.rest(partition, position)",
        "                pass",
    ),
    Mutant(
        "the ACK of one producer's record releases another's",
        "dafka/protocol/watermarks.py",
        "        return self._runs[partition] != (run and run.number)",
        "        return False",
    ),
    Mutant(
        "a consumer from the latest on misses the beginning of what is new",
        "dafka/protocol/consumer.py",
        "            latest = 0  # it is new, so all of it was published since this consumer began",
        "            pass",
    ),
    Mutant(
        "flags are not looked at",
        "topology/copyflags.py",
        "    return flags & mask(level) == 0",
        "    return True",
    ),
    Mutant(
        "a copy is not flagged",
        "topology/copyflags.py",
        "    return flags | bit(level)",
        "    return flags",
    ),
    Mutant(
        "a link begins one record too late",
        "distributor/link/machine.py",
        "            position = Seek(partition, heads.target.get(partition, -1) + 1)",
        "            position = Seek(partition, heads.target.get(partition, -1) + 2)",
    ),
    Mutant(
        "a link believes the first store about where logs begin",
        "distributor/link/holdings.py",
        "            by_all = source.begins()",
        "            by_all: dict[Partition, int] | None = begins",
    ),
    Mutant(
        "a link copies on where histories differ",
        "distributor/link/events.py",
        "        for partition, first in heads.diverged.items():",
        "        for partition, first in {}.items():",
    ),
    Mutant(
        "a link goes on behind what retention has taken",
        "distributor/link/machine.py",
        "        if unsure or (holds and not skips):",
        "        if unsure:",
    ),
    Mutant(
        "a partition that was refused is never tried again",
        "distributor/link/events.py",
        "        return now_ms >= stop.until_ms or heads.target.get(partition, -1) >= stop.first",
        "        return heads.target.get(partition, -1) >= stop.first",
    ),
    Mutant(
        "what the target has lost is not brought again",
        "distributor/link/machine.py",
        "        for partition, end in findings.lost.items():",
        "        for partition, end in {}.items():",
    ),
    Mutant(
        "what nobody brings to a target is not brought",
        "distributor/link/machine.py",
        "        for partition, end in findings.stalled.items():",
        "        for partition, end in {}.items():",
    ),
    Mutant(
        "a target that is silent, and takes nothing, is not left",
        "distributor/link/target.py",
        "        if self.current in self._lost or gone or silent_ms >= patience_ms:\n"
        "            # A target that rests may still take more than one that is dead.\n"
        "            return self._fail_over(now_ms, resting=True)\n"
        "        if self._stuck_ms >= patience_ms and",
        "        if self.current in self._lost:\n"
        "            return self._fail_over(now_ms, resting=True)\n"
        "        if self._stuck_ms < 0 and",
    ),
    Mutant(
        "a target that takes nothing is not left",
        "distributor/link/target.py",
        "        if self._stuck_ms >= patience_ms and",
        "        if self._stuck_ms < 0 and",
    ),
    Mutant(
        "a target that relays nothing is not left",
        "distributor/link/target.py",
        "        if self._starved_ms >= patience_ms and",
        "        if self._starved_ms < 0 and",
    ),
    Mutant(
        "members begin before others have given back",
        "dafka/groups/member.py",
        "        if not reconciling or self._lease_ms is None or not self._all_released():",
        "        if not reconciling or self._lease_ms is None:",
    ),
    Mutant(
        "what is given back for a later generation counts for an earlier one",
        "dafka/groups/member.py",
        "            if pulse.released == generation",
        "            if pulse.released >= generation",
    ),
    Mutant(
        "a member without a lease goes on",
        "dafka/groups/member.py",
        "        if not self._joined or self._lease_ms is None or now_ms < self._lease_ms:\n",
        "        if self._joined:\n",
    ),
    Mutant(
        "one store is a majority",
        "dafka/groups/membership.py",
        "    return stores // 2 + 1",
        "    return 1",
    ),
    Mutant(
        "one store is enough for a commit",
        "dafka/groups/membership.py",
        "    return stores - majority_of(stores) + 1",
        "    return 1",
    ),
    Mutant(
        "a store takes a member for dead before its session is over",
        "dafka/groups/acceptor.py",
        "    return not heard.left and now_ms - heard.at_ms <= heard.about.session_ms",
        "    return not heard.left and 2 * (now_ms - heard.at_ms) <= heard.about.session_ms",
    ),
    Mutant(
        "a store takes what it has promised not to",
        "dafka/groups/acceptor.py",
        "        if missed or request.ballot < register.promised:",
        "        if missed:",
    ),
    Mutant(
        "a store on a new disk does not wait for leases of the old one",
        "dafka/groups/acceptor.py",
        "        return ballot != register.promised or now_ms - self._opened_ms <= longest_ms",
        "        return ballot != register.promised and longest_ms > 0",
    ),
    Mutant(
        "the promise of a store on a new disk counts as any other",
        "dafka/groups/proposer.py",
        "        return known >= self.majority or (not known and len(promises) >= self.majority)",
        "        return len(promises) >= self.majority",
    ),
    Mutant(
        "a promise is not on disk",
        "dafka/groups/acceptor.py",
        "        self._log.append((), entries=[TableEntry(TABLE, octets_of(group), value)])",
        "        del value",
    ),
    Mutant(
        "the commit that comes last holds, not the newest",
        "dafka/groups/commit_table.py",
        "            if before is None or commit.rank() > before.rank():",
        "            if before is None or commit.rank() != before.rank():",
    ),
    Mutant(
        "what a group has committed is not heeded",
        "dafka/groups/consumer.py",
        "        if commit is not None and commit.position is not None:",
        "        if commit is not None and commit.position == 0:",
    ),
    Mutant(
        "what the application still works on is committed",
        "dafka/node/progress.py",
        "        return first if self.record is None else self.record.sequence\n",
        "        return first if self.record is None else self.record.sequence + 1\n",
    ),
    Mutant(
        "what an application has failed at is committed when it leaves",
        "dafka/node/group.py",
        "self.hand.processed() if failed else self.hand.vouch()[0]",
        "self.hand.vouch()[0]",
    ),
    Mutant(
        "what is given back is not committed",
        "dafka/groups/consumer.py",
        "        commits = event.positions if self._settings.auto_commit_ms is not None else {}",
        "        commits: Mapping[Partition, int] = {}",
    ),
    Mutant(
        "shares stay as hashing makes them",
        "dafka/groups/member.py",
        "        moved = self._evened(members, base.moved)",
        "        moved = dict(base.moved)",
    ),
    Mutant(
        "one store is enough for a registry",
        "dafka/schemas/schema_log.py",
        "self._produce(self._cluster, self.majority)",
        "self._produce(self._cluster, 1)",
    ),
    Mutant(
        "a registration is answered without looking whether it holds",
        "dafka/schemas/service.py",
        "        if not self._leads() or self._state.epoch != epoch or not holds:\n"
        "            raise _taken_over()\n",
        "",
    ),
    Mutant(
        "after a write that failed the same ids and stamps are given again",
        "dafka/schemas/service.py",
        "                or self._unsettled\n",
        "",
    ),
    Mutant(
        "of two entries for a key the one that is read last holds",
        "dafka/schemas/state.py",
        "entry.rank() <= before.rank()",
        "entry == before",
    ),
    Mutant(
        "a registry whose cluster is not the primary registers",
        "dafka/schemas/service.py",
        "        if primary.cluster != self._cluster:\n            raise",
        "        if not primary.cluster:\n            raise",
    ),
    Mutant(
        "what was deleted is there again after a restart",
        "dafka/schemas/state.py",
        "        if before is not None and entry.rank() <= before.rank():\n",
        "        gone = isinstance(before and before.value, Version) and before.value.deleted\n"
        "        if before is not None and not gone and entry.rank() <= before.rank():\n",
    ),
    Mutant(
        "with a version its schema is gone, also where other versions have it",
        "dafka/schemas/registry.py",
        "            if set(self.uses_of(id_, deleted=True)) <= set(places):",
        "            if places:",
    ),
    Mutant(
        "two processes of one cluster register in one epoch",
        "dafka/schemas/service.py",
        "            self._state.primary == Primary(self._cluster, self._log.address)\n"
        "            and len(self._state.rivals) == 1",
        "            self._state.primary is not None\n"
        "            and self._state.primary.cluster == self._cluster",
    ),
    Mutant(
        "a store that is not asked yet is not waited for before records are passed over",
        "dafka/protocol/receiver.py",
        "        if (is_late or stream.barren < BARREN_WINDOWS_MAX) and any(\n",
        "        if stream.barren < 0 and any(\n",
    ),
    Mutant(
        "an ACK for another producer's records is taken for one's own",
        "dafka/protocol/unacked.py",
        "    return own is not None and own.number != run",
        "    return False",
    ),
    Mutant(
        "what waits for an ACK keeps out what stores have",
        "dafka/protocol/consumer.py",
        "        if self._settings.committed and batch.end > self._durable.end(batch.partition):",
        "        if self._settings.committed:",
    ),
    Mutant(
        "what lies behind a gap keeps out what fills it",
        "dafka/protocol/consumer.py",
        "        if batch.sequence > self._inflow.expected(batch.partition):",
        "        if batch.sequence >= 0:",
    ),
    Mutant(
        "records are old by this machine's clock alone",
        "dafka/storage/clocks.py",
        "        return max(min(middle, wall_ms), wall_ms - APART_MS_MAX)",
        "        return wall_ms",
    ),
    Mutant(
        "the clocks of one cluster are enough to call records old",
        "dafka/storage/clocks.py",
        "            return wall_ms - APART_MS_MAX\n        clocks",
        "            return wall_ms\n        clocks",
    ),
    Mutant(
        "retention takes all of a partition whose first record is old",
        "dafka/storage/retention.py",
        "        if outline.newest_ms >= before_ms:",
        "        if outline.newest_ms < 0:",
    ),
    Mutant(
        "where a partition goes on, what it had before is dropped",
        "dafka/node/store.py",
        "self._log.append(effect.batches, skips=dict(effect.skips), entries=entries)",
        "self._log.append(\n                effect.batches,\n"
        "                trims=dict(effect.skips),\n                skips=dict(effect.skips),\n"
        "                entries=entries,\n            )",
    ),
    Mutant(
        "a spool gives back the newest first",
        "dafka/storage/spool.py",
        "        return [batch for batches in self._batches.values() for batch in batches]",
        "        return [one for batches in self._batches.values() for one in reversed(batches)]",
    ),
    Mutant(
        "bare values differ by when they were received",
        "dafka/protocol/duplicate_producer.py",
        "    if has_append_time(one.content) or has_append_time(other.content):",
        "    if has_append_time(one.content) and not has_append_time(other.content):",
    ),
    Mutant(
        "a link reads what no store has",
        "distributor/link/node.py",
        "        committed=True,",
        "        committed=False,",
    ),
    Mutant(
        "a lease is looked at by a clock that stands still in suspension",
        "dafka/node/group.py",
        "self._clock.now_ms() < lease_ms",
        "1_000 * self._clock.seconds() < lease_ms",
    ),
    Mutant(
        "a lease counts from when the answer came",
        "dafka/groups/member.py",
        "            self._renew(asked.store, asked.sent_ms)",
        "            self._renew(asked.store, now_ms)",
    ),
    Mutant(
        "a commit is the older one once a clock was set back",
        "dafka/node/group.py",
        "        self._commit_ms = max(self._commit_ms + 1, self._clock.wall_ms())",
        "        self._commit_ms = self._clock.wall_ms()",
    ),
    Mutant(
        "the commits of who was replaced hold",
        "dafka/groups/commit.py",
        "            self.epoch,\n            self.commit_ms,\n            self.origin,",
        "            0,\n            self.commit_ms,\n            self.origin,",
    ),
    Mutant(
        "a store takes in what it does not keep",
        "dafka/protocol/keeping.py",
        "        return self.kept.keeps(*partition) or self.joining.keeps(*partition)",
        "        return True",
    ),
    Mutant(
        "who asks takes one share for all",
        "dafka/query/sharing_store.py",
        "            left = left.without(share)",
        "            left = Slots(0)",
    ),
]
