// @platformatic/kafka: `node platformatic.mjs MODULES`, where MODULES is what npm has installed into.

import { setTimeout } from 'node:timers/promises'
import { ended, problem, say, security, serve, values } from './program.mjs'

const { Admin, Consumer, Producer, stringDeserializers, stringSerializers } = await import(
  `${process.argv[2]}/node_modules/@platformatic/kafka/dist/index.js`
)

/** Kafka's numbers for a topic whose configs they are, and for setting them. */
const [TOPIC, SET] = [2, 0]

function settings(asked) {
  const { tls, login } = security(asked)
  return {
    clientId: 'platformatic',
    bootstrapBrokers: [asked.endpoint],
    retries: asked.mechanism ? 0 : 3,
    tls,
    sasl: login && { mechanism: asked.mechanism, ...login }
  }
}

/** Does something with a client, and closes it; that takes for ever after a login that failed. */
async function using(client, work) {
  const done = await work(client)
  await client.close()
  return done
}

/** What a coordinator says to whoever commits while a rebalance is on its way, in either protocol. */
const REBALANCING = ['STALE_MEMBER_EPOCH', 'ILLEGAL_GENERATION', 'REBALANCE_IN_PROGRESS']

/** Commits; until a rebalance is over the member's epoch is not the coordinator's. */
async function commit(message) {
  for (let tries = 100; ; tries--) {
    try {
      return await message.commit()
    } catch (error) {
      if (!tries || !error.errors?.some(one => REBALANCING.includes(one.apiId))) throw error
      await setTimeout(50)
    }
  }
}

function consumerOf(asked, group) {
  const reading = { autocommit: false, maxWaitTime: 200, deserializers: stringDeserializers }
  return new Consumer({ ...settings(asked), ...reading, groupId: asked.group, ...group })
}

serve({
  produce(asked) {
    const idempotent = asked.idempotent === 'true'
    const writing = { serializers: stringSerializers, compression: asked.codec, idempotent }
    return using(new Producer({ ...settings(asked), ...writing }), async producer => {
      const messages = values(asked).map(value => ({ topic: asked.topic, partition: 0, value }))
      await producer.send({ messages })
      return {}
    })
  },

  consume(asked) {
    const offsets = [{ topic: asked.topic, partition: 0, offset: BigInt(asked.offset) }]
    return using(consumerOf(asked), async consumer => {
      const stream = await consumer.consume({ topics: [asked.topic], mode: 'manual', offsets })
      const records = []
      for await (const message of stream) {
        records.push([Number(message.offset), message.value])
        if (records.length === Number(asked.records)) break
      }
      return { records }
    })
  },

  administer(asked) {
    return using(new Admin(settings(asked)), async admin => {
      const made = { topics: [asked.topic], partitions: 3 }
      await admin.createTopics(made)
      const again = await admin.createTopics(made).then(
        () => '',
        error => error.errors.map(one => one.message).join(', ')
      )
      const metadata = await admin.metadata({ topics: [asked.topic] })
      const listed = await admin.listTopics()
      return { listed, partitions: metadata.topics.get(asked.topic).partitionsCount, again }
    })
  },

  /** Makes a topic again after each deletion, sets a config, and one to what it cannot be. */
  alter(asked) {
    return using(new Admin(settings(asked)), async admin => {
      const made = { topics: [asked.topic], partitions: 3 }
      for (let times = 0; times < 2; times++) {
        await admin.createTopics(made)
        await admin.deleteTopics({ topics: [asked.topic] })
      }
      await admin.createTopics(made)
      const topic = { resourceType: TOPIC, resourceName: asked.topic }
      const retain = value => {
        const configs = [{ name: 'retention.ms', configOperation: SET, value }]
        return admin.incrementalAlterConfigs({ resources: [{ ...topic, configs }] })
      }
      await retain('60000')
      const named = { ...topic, configurationKeys: ['retention.ms'] }
      const [told] = await admin.describeConfigs({ resources: [named] })
      const refused = await retain('soon').then(() => '', problem)
      return { value: told.configs[0].value, refused }
    })
  },

  find(asked) {
    return using(new Admin(settings(asked)), async admin => {
      const at = async timestamp => {
        const partitions = [{ partitionIndex: 0, timestamp }]
        const [topic] = await admin.listOffsets({ topics: [{ name: asked.topic, partitions }] })
        return Number(topic.partitions[0].offset)
      }
      const [start, end] = [await at(-2n), await at(-1n)]
      return { found: await at(BigInt(asked.time_ms)), start, end }
    })
  },

  groups(asked) {
    return using(new Admin(settings(asked)), async admin => {
      const listed = [...(await admin.listGroups()).keys()]
      const one = (await admin.describeGroups({ groups: [asked.group] })).get(asked.group)
      const [{ topics }] = await admin.listConsumerGroupOffsets({ groups: [asked.group] })
      const offsets = topics[0].partitions.map(one => [one.partitionIndex, Number(one.committedOffset)])
      return { listed, state: one.state, members: one.members.size, offsets }
    })
  },

  move(asked) {
    return using(new Admin(settings(asked)), async admin => {
      const partitionOffsets = [{ partition: 1, offset: BigInt(asked.offset) }]
      const topics = [{ name: asked.topic, partitionOffsets }]
      await admin.alterConsumerGroupOffsets({ groupId: asked.group, topics })
      return {}
    })
  },

  unset(asked) {
    return using(new Admin(settings(asked)), async admin => {
      const topics = [{ name: asked.topic, partitionIndexes: [1] }]
      await admin.deleteConsumerGroupOffsets({ groupId: asked.group, topics })
      return {}
    })
  },

  forget(asked) {
    return using(new Admin(settings(asked)), async admin => {
      await admin.deleteGroups({ groups: [asked.group] })
      return {}
    })
  },

  transact(asked) {
    const one = { transactionalId: 'one', idempotent: true }
    return using(new Producer({ ...settings(asked), ...one }), async producer => {
      await producer.beginTransaction()
      return {}
    })
  },

  async join(asked) {
    const session = Number(asked.session_ms)
    const protocol =
      asked.protocol === 'consumer'
        ? { groupProtocol: 'consumer' }
        : { sessionTimeout: session, heartbeatInterval: session / 5 }
    const consumer = consumerOf(asked, { ...protocol, groupInstanceId: asked.instance })
    const topics = [asked.topic]
    const stream = await consumer.consume({ topics, mode: 'committed', fallbackMode: 'earliest' })
    let assigned = ''
    const looking = setInterval(() => {
      const mine = (consumer.assignments ?? []).flatMap(one => one.partitions)
      if (mine.join() !== assigned) {
        assigned = mine.join()
        say({ assigned: mine })
      }
    }, 50)
    ended.then(() => stream.close())
    for await (const message of stream) {
      await commit(message)
      say({ got: [[message.partition, Number(message.offset)]] })
    }
    clearInterval(looking)
    await consumer.close(true)
    return {}
  }
})
