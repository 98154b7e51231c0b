// Package series keeps what an analyzer counted in each of the last 900 seconds, for charts: GET /v1/series.
//
//	Stats of the owners, each second ──▶ Ring: 900 samples ──▶ Newest ──▶ Add: the samples of all analyzers ──▶ the answer
//
// A sample is the sum over the partitions that this analyzer's owners counted for all of that second. It says how many these were.
// So the samples of several analyzers can be added, also of seconds in which a partition had another owner: what is missing is seen
// in Series.Covered. A partition that is opened, restored or drained is in no sample: an owner that restores counts old messages.
// There are no samples of an outage of Kafka: a zero would say that no request came.
//
// Samples carry the time of the wall clock, so that those of several analyzers fit. The ring survives a clock that is set: a sample
// has its second beside it, and one of another time is not shown.
//
// Chosen input: a Ring has 900 samples of 72 bytes, and one line of counters for each partition that its analyzer owns. No traffic
// makes it larger.
package series
