// kafkajs: `node kafkajs.mjs MODULES`, where MODULES is what npm has installed into.

import { createRequire } from 'node:module'
import { ended, say, security, serve, values } from './program.mjs'

const require = createRequire(`${process.argv[2]}/`)
const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy
}

function client(asked) {
  const { tls, login } = security(asked)
  return new Kafka({
    brokers: [asked.endpoint],
    logLevel: logLevel.NOTHING,
    retry: { retries: 3 },
    ssl: tls,
    sasl: login && { mechanism: asked.mechanism.toLowerCase(), ...login }
  })
}

serve({
  async produce(asked) {
    const idempotent = asked.idempotent === 'true'
    const producer = client(asked).producer({ idempotent })
    await producer.connect()
    const messages = values(asked).map(value => ({ value, partition: 0 }))
    await producer.send({ topic: asked.topic, compression: CODECS[asked.codec], messages })
    await producer.disconnect()
    return {}
  },

  async consume(asked) {
    const consumer = client(asked).consumer({ groupId: asked.group })
    await consumer.connect()
    await consumer.subscribe({ topic: asked.topic })
    const records = []
    await new Promise(resolve => {
      consumer.run({
        autoCommit: false,
        eachMessage: async ({ message }) => {
          records.push([Number(message.offset), message.value.toString()])
          if (records.length === Number(asked.records)) resolve()
        }
      })
      consumer.seek({ topic: asked.topic, partition: 0, offset: asked.offset })
    })
    await consumer.disconnect()
    return { records: records.slice(0, Number(asked.records)) }
  },

  async administer(asked) {
    const admin = client(asked).admin()
    await admin.connect()
    const made = { topics: [{ topic: asked.topic, numPartitions: 3 }] }
    await admin.createTopics(made)
    const again = await admin.createTopics(made) // false where it is there
    const { topics } = await admin.fetchTopicMetadata({ topics: [asked.topic] })
    const listed = await admin.listTopics()
    await admin.disconnect()
    return { listed, partitions: topics[0].partitions.length, again: again ? '' : 'exists' }
  },

  /** Makes a topic again after each deletion, sets a config, and one to what it cannot be. */
  async alter(asked) {
    const admin = client(asked).admin()
    await admin.connect()
    const made = { topics: [{ topic: asked.topic, numPartitions: 3 }] }
    for (let times = 0; times < 2; times++) {
      await admin.createTopics(made)
      await admin.deleteTopics({ topics: [asked.topic] })
    }
    await admin.createTopics(made)
    const topic = { type: ConfigResourceTypes.TOPIC, name: asked.topic }
    const retain = value => {
      const configEntries = [{ name: 'retention.ms', value }]
      return admin.alterConfigs({ resources: [{ ...topic, configEntries }] })
    }
    await retain('60000')
    const named = { ...topic, configNames: ['retention.ms'] }
    const told = await admin.describeConfigs({ resources: [named] })
    const refused = await retain('soon').then(
      () => '',
      error => error.message
    )
    await admin.disconnect()
    return { value: told.resources[0].configEntries[0].configValue, refused }
  },

  async find(asked) {
    const admin = client(asked).admin()
    await admin.connect()
    const [found] = await admin.fetchTopicOffsetsByTimestamp(asked.topic, Number(asked.time_ms))
    const [ends] = await admin.fetchTopicOffsets(asked.topic)
    await admin.disconnect()
    return { found: Number(found.offset), start: Number(ends.low), end: Number(ends.high) }
  },

  async groups(asked) {
    const admin = client(asked).admin()
    await admin.connect()
    const { groups } = await admin.listGroups()
    const [one] = (await admin.describeGroups([asked.group])).groups
    const [{ partitions }] = await admin.fetchOffsets({ groupId: asked.group })
    await admin.disconnect()
    return {
      listed: groups.map(one => one.groupId),
      state: one.state,
      members: one.members.length,
      offsets: partitions.map(one => [one.partition, Number(one.offset)])
    }
  },

  async move(asked) {
    const admin = client(asked).admin()
    await admin.connect()
    const partitions = [{ partition: 1, offset: asked.offset }]
    await admin.setOffsets({ groupId: asked.group, topic: asked.topic, partitions })
    await admin.disconnect()
    return {}
  },

  async forget(asked) {
    const admin = client(asked).admin()
    await admin.connect()
    await admin.deleteGroups([asked.group])
    await admin.disconnect()
    return {}
  },

  async transact(asked) {
    const settings = { transactionalId: 'one', maxInFlightRequests: 1, idempotent: true }
    const producer = client(asked).producer(settings)
    await producer.connect()
    try {
      await producer.transaction()
    } finally {
      await producer.disconnect()
    }
    return {}
  },

  async join(asked) {
    const consumer = client(asked).consumer({
      groupId: asked.group,
      maxWaitTimeInMs: 200,
      sessionTimeout: Number(asked.session_ms),
      heartbeatInterval: Number(asked.session_ms) / 5
    })
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      say({ assigned: payload.memberAssignment[asked.topic] ?? [] })
    })
    await consumer.connect()
    await consumer.subscribe({ topic: asked.topic, fromBeginning: true })
    await consumer.run({
      autoCommit: false,
      eachBatch: async ({ batch, resolveOffset, isRunning, isStale }) => {
        if (!isRunning() || isStale()) return
        const { topic, partition, messages } = batch
        const last = messages.at(-1).offset
        const offset = String(BigInt(last) + 1n)
        await consumer.commitOffsets([{ topic, partition, offset }])
        resolveOffset(last)
        say({ got: messages.map(one => [partition, Number(one.offset)]) })
      }
    })
    await ended
    await consumer.disconnect()
    return {}
  }
})
