// Package kafkaprom shows the calls of a kafkaio.Client to Prometheus: how many, with which result, and how long
// they took, and whether brokers answer.
//
//	kafkaio.Config.Observe ──▶ Calls ◀──scrape── Prometheus
//
// There is no label that names a topic, a partition or a broker, so the number of series is fixed.
package kafkaprom
