// Package ingest reads the access logs that other software writes.
//
//	line ─▶ decoder ─▶ values ─▶ mapper ─▶ Line{Time, IDs, Resource, Status, Cost, Blocked}   counts
//	                                 └───▶ Reason                                             does not, and why
//
// Its nouns: a Format is how a log writes a request (combined, nginx, csv; see Formats) together with a Mapping, which says
// what the callers of a line are and where its fields are. A Scanner reads lines of one format, in one goroutine: its decoder
// finds the fields, and its mapper makes callers of them. A Line is the result. A Reason says why a line does not count; that
// is never fatal, and it is counted.
//
// A line counts if its time and at least one of its callers can be read, however damaged the rest is. Other fields that cannot
// be read are left zero.
//
// Package schemas makes ids, as everywhere else: an IPv6 client is counted by its network, and a long id, or a part that contains
// the separator behind it, by a hash. If a server has joined two lines of a header into one value, that value is the id.
//
// Scanners are written by hand and cost tens of nanoseconds a line. The ids and the resource of a Line are views into the
// scanned bytes (Line says how long they are valid), and the date of a timestamp is computed once for each minute of log. Text
// between quotes stays as the server wrote it, with percent-encoding and the server's own escapes (\x22).
//
// # Whose line it is
//
// Clients write the host, the user, the path and the headers of a line. A line counts only if it can be read in one way, whatever they
// write: a quote that the server escapes ends a field, and between two quotes the fields of the server are found from both ends, or
// must occur once (see layout). The common log format needs three words before the time (see owner). A line with another reading is
// refused. The rest of a line that a container runtime has cut is no line (Continued). auto decides by one line, and gives up after
// three requests that no format reads, so that a client cannot write the line that decides much later.
//
// # Chosen input
//
// Clients choose paths, user names and headers. Compared with a random line of the same length, a chosen line costs:
//   - Every decoder reads a line once, from start to end. It does not look twice at escapes, brackets or equal keys. Long text
//     without them is skipped at the speed of memory. Text of nothing else costs 4 ns a byte at worst, and up to 15 ns a byte
//     inside a JSON object of which a member is wanted (such as request.headers of Caddy), because a real parser makes values
//     of it. No line is longer than MaxLine. Other lines cost 1 to 2 ns a byte.
//   - JSON's parsers keep their memory for the next line; they are replaced after maxParsed bytes.
//   - Depth: the walk counts brackets and does not recurse; the parser refuses more than 300 levels.
//   - Names of fields come from the mapping: no line adds one. byKey, keySlot and the members of the last line only save
//     comparisons. A key that is chosen to defeat them costs one comparison for each wanted field that has the same slot.
//   - Routes: a path visits each node of the templates at most once. It can visit all nodes with its segments or with braces,
//     15 ns each. There are at most as many nodes as templates times segments.
//   - Clocks remember one minute. Times of other minutes cost 30 ns more, and the server writes the times.
//   - Forwarded addresses are read from the end to the first one that no trusted proxy has. Forged addresses stand before it.
//     Zones of addresses are cut off by hand, because netip would intern each of them.
//   - Globs of drop filters: see package pattern.
//
// BenchmarkChosenInput measures this.
package ingest
