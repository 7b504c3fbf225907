// What the programs for Node share: commands come in lines of standard input, `NAME\tKEY=VALUE…`,
// and each is answered by a line of JSON.

import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

/** Resolves when nobody has anything more to ask: a member leaves its group then. */
export const ended = new Promise(resolve => process.stdin.on('end', resolve))

export function say(answer) {
  process.stdout.write(JSON.stringify(answer) + '\n')
}

/** TLS and login as both clients take them. */
export function security(asked) {
  return {
    tls: asked.ca ? { ca: [readFileSync(asked.ca)], ...certificate(asked) } : undefined,
    login: asked.mechanism && { username: asked.username, password: asked.password }
  }
}

function certificate(asked) {
  const own = asked.certificate && readFileSync(asked.certificate)
  return own ? { cert: own, key: own } : {}
}

/** An error and what it comes of. */
export function problem(error) {
  const causes = [...(error.errors ?? []), ...(error.cause ? [error.cause] : [])].map(problem)
  return [`${error.name}: ${error.message}`, ...new Set(causes)].join('; ')
}

export function values(asked) {
  return Array.from({ length: Number(asked.records) }, (_, number) => `${asked.name} ${number}`)
}

/** Does what it is told, one after the other, until there is nothing more. */
export function serve(commands) {
  let last = Promise.resolve()
  createInterface({ input: process.stdin }).on('line', line => {
    const [name, ...options] = line.split('\t')
    const asked = Object.fromEntries(options.map(one => one.split(/=(.*)/s, 2)))
    last = last.then(async () => {
      try {
        say(await commands[name](asked))
      } catch (error) {
        say({ error: problem(error) })
      }
    })
  })
}
