// Package notify delivers events as webhooks, at least once.
//
//	events[p] ──reader──▶ queue ──call──▶ webhook.Client ──▶ endpoint
//	   ▲                    ▲               │
//	   │                    └──retry────────┤
//	   └── commit ◀── ledger ◀──────────────┘ delivered or dropped
//
// Its nouns: a Notifier has one worker for each endpoint of its settings. A worker is a member of the endpoint's own consumer group,
// so that an endpoint that does not answer holds back no other. A call is one message to the endpoint with all its attempts; it has
// one event, or a digest of many. A ledger knows up to which offset of a partition everything is delivered or dropped.
//
// # What is promised
//
//   - Each event is delivered at least once, or dropped and counted. The group's offset is committed only behind events of which that
//     is known, so a process that is killed sends the events behind it again, under the same webhook-id. Receivers drop ids that
//     they have seen. A digest may then have other events, and with them another id.
//   - The events of one caller are delivered in their order. While one waits, the later ones of that caller wait too, and those of
//     others do not.
//   - A call that fails is tried again after 5 s, 10 s and so on up to an hour, less up to a fifth at random. It is dropped when an
//     attempt fails, it had 5 attempts, and its newest event is older than a day.
//   - 410 disables the endpoint until the settings change or are read again on request. Its events stay in the topic.
//   - A worker has at most 10,000 events in memory. It then stops reading, and loses nothing that the topic keeps.
//   - A storm is one message: if more than Digest.Over events come within Digest.Every, they wait for that long and go as a digest.
//   - An endpoint that is new begins with the events of the last ten minutes.
//
// # Chosen input
//
// Whoever can close callers makes events: with many addresses, a stranger can. Then events go as digests, so the number of messages
// is bounded by Digest, and memory by 10,000 events of 16 KiB for each endpoint. Tables by caller are Go maps, which are seeded.
package notify
