// Package receiver takes access logs that programs send by gRPC, where no files are: Envoy's access log service (ALS), and logs of
// OpenTelemetry (OTLP).
//
//	Envoy ────── StreamAccessLogs ─▶ entries ─┐ lines of JSON              ┌─ feed.Source grpc:als
//	collector ── Export ───────────▶ records ─┴────▶ inbox, one at a time ─┴─ feed.Source grpc:otlp ─▶ Kafka
//	          ◀── OK: all of it is in Kafka ─────────────────────────────────────────┘
//
// Its nouns: a Receiver serves both. An entry of Envoy's and a record of OpenTelemetry each become one line of JSON, which is read as the
// lines of a file are: by a format and a mapping. An inbox is the source of all entries, or of all records, since this process began. The
// calls of all clients feed it by turns.
//
// # What a line has
//
// An entry has the names that Envoy's documentation uses in JSON logs, which the format envoy reads: start_time,
// downstream_remote_address, response_code and so on. A header that Envoy is told to log is request_headers.NAME, as in
// request_headers.x-api-key; response_headers.NAME and custom_tags.NAME are the same for others. Empty ones are left out. Envoy can log
// a request several times: only the entry of its end counts and, if the mapping says which lines are arrivals, that of its start. The
// others are counted as intermediate.
//
// A record has its attributes under their own names, those of its resource as resource.NAME, its text as body, and its time three times:
// as @timestamp, timestamp and time. If the body is a map, its members stand before the attributes. See ingest.Format.Records for how the
// body is read.
//
// # How often an entry counts
//
// ALS has no acknowledgement. Each entry that this process has read counts once, if the process lives until Kafka has it. What is lost:
//   - Envoy killed: the entries that it has not sent, by default those of the last second or 16 KiB for each of its threads, and what is on
//     its way.
//   - This process killed: what is on its way (callWindow for each stream, by HTTP/2's flow control, and one message), and what
//     waits for Kafka: feed.Config.MaxBytes at most. A stop in good order loses what is sent while the stream ends.
//   - Kafka slow, and feed.Config.MaxBytes reached: nothing is read any more. Flow control stops Envoy, which then drops and counts entries
//     itself (access_logs.grpc_access_log.logs_dropped).
//
// OTLP has an acknowledgement. OK means that Kafka has the whole request; lines that cannot be read are then among the rejects. After
// answerWithin without Kafka's acknowledgement the answer is UNAVAILABLE with RetryInfo, and the client sends the request again. One
// call may wait longer: the one that has its turn while feed.Config.MaxBytes wait.
//
// A request that is sent again counts once, if it comes to the same process: the last maxRemembered requests are known by their bytes.
// The times of the records tell requests apart. If none of these times is finer than a millisecond, a request always counts: two such
// requests may be equal, and both be meant. A request counts twice if its frames are in Kafka, its answer was lost, and it is sent again
// to another process, or after this one was killed.
//
// # Bounds
//
// There are at most maxConnections connections and maxCalls calls; a message has at most 4 MiB, as it is sent and unpacked. So strangers
// can make it hold 4 GiB, and Envoy, whose messages are as large as its buffer_size_bytes, some MiB. One message of each service is turned
// into lines at a time. Config.MaxBytes of the feed bounds what waits for Kafka.
//
// # Chosen input
//
// Who reaches the port can invent requests of any caller. So it listens on loopback, on a Unix socket, or where only servers can reach it.
// Clients of these servers choose paths, headers and texts:
//   - A text is escaped byte by byte, at most six bytes for one. No text ends a line or a member.
//   - A line is read up to ingest.MaxLine. Behind what Envoy measures, texts that clients choose stand by their length, the shortest first:
//     a long one pushes no shorter one out of the line.
//   - Values inside of values are written up to maxDepth; deeper ones are null.
//   - The table of known requests is keyed by SHA-256.
//   - Envoy replaces bytes that are no UTF-8 in what it sends.
package receiver
