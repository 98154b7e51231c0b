// Package repeats keeps a log short while Kafka is away. Then requests of each partition and each topic fail, and are tried
// again several times a second. The log shows the first of these warnings, and then one each minute, with the number of
// warnings that it left out.
//
//	warning ", trying again" ──Handler──▶ once, then each minute with not_shown=N
//	all else ──────────────────────────▶ as it is
package repeats
