package ingest

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Format is how a log writes its requests, together with the mapping of its fields. It does not change, and any number of
// goroutines may use it.
type Format struct {
	name   string
	kinds  []string
	headed bool     // see Headed
	silent bool     // see Mapping.NoResponses
	splits bool     // some lines are arrivals, and the others responses
	mute   bool     // see Mapping.NoArrivals
	holds  bool     // responses have an arrival
	trusts bool     // the mapping trusts proxies
	object bool     // it reads JSON objects, or the mapping says what is around its lines
	unfit  []unfit  // formats that auto leaves out
	wanted []string // fields of the time and the callers, as the mapping names them
	open   func() Scanner
}

// FormatAuto is the name of the format that finds out the format of each log: its first line that some format can read
// decides.
const FormatAuto = "auto"

// Formats returns the names of the known formats, auto first.
func Formats() []string {
	names := []string{FormatAuto}
	for _, s := range styles() {
		names = append(names, s.name)
	}
	return names
}

// NewFormat returns the format of that name with the mapping m, or an error that wraps ErrMapping.
func NewFormat(name string, m Mapping) (*Format, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	if name == FormatAuto {
		return newAuto(m)
	}
	if s, ok := styleOf(name); ok {
		return s.format(m)
	}
	return nil, fmt.Errorf("%w: got format %q, want one of %s", ErrMapping, name, strings.Join(Formats(), ", "))
}

// format makes the Format of a style.
func (s style) format(m Mapping) (*Format, error) {
	if s.native && (m.Time != "" || m.Layout != TimeAuto) {
		return nil, fmt.Errorf("%w: format %s has its own time", ErrMapping, s.name)
	}
	m = m.withDefaults(s.defaults)
	names, open, err := s.make(m)
	if err != nil {
		return nil, fmt.Errorf("%w: format %s: %w", ErrMapping, s.name, err)
	}
	p, err := newMapper(m, names, s.native)
	if err != nil {
		return nil, fmt.Errorf("format %s: %w", s.name, err)
	}
	p.dash = s.dash
	made := &Format{
		name: s.name, headed: s.headed(m), silent: m.NoResponses, splits: len(m.Arrivals) > 0, mute: m.NoArrivals, holds: m.Duration != "", trusts: len(m.Client.Trusted) > 0, object: s.json || len(m.Unwrap) > 0,
	}
	if m.Time != "" {
		made.wanted = append(made.wanted, m.Time)
	}
	for _, c := range m.Callers {
		made.kinds = append(made.kinds, c.Kind)
		text := c.Template
		if client := cmp.Or(m.Client.Address, m.Client.Forwarded); text == "{"+fieldClient+"}" && client != "" {
			text = client
		}
		made.wanted = append(made.wanted, text)
	}
	size := names.size()
	made.open = func() Scanner {
		return &scan{m: p, decoder: open(), clock: clock{layout: p.layout}, values: make([]string, size)}
	}
	if len(m.Unwrap) > 0 {
		made.headed = true // a line may go on in the next
		if made.open, err = unwrapped(made.open, m.Unwrap); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// Name returns the format's name.
func (f *Format) Name() string { return f.name }

// Kinds returns the kinds of a line's callers, in the order of Line.IDs.
func (f *Format) Kinds() []string { return slices.Clone(f.kinds) }

// Headed reports whether the first line of a log is needed to read the others: it names the columns, or it shows which format
// the log has. A reader that begins in the middle of a log scans the first line before.
func (f *Format) Headed() bool { return f.headed }

// Responses reports whether status and cost are to be passed on: see Mapping.NoResponses.
func (f *Format) Responses() bool { return !f.silent }

// Arrives reports whether lines are arrivals: see Mapping.NoArrivals.
func (f *Format) Arrives() bool { return !f.mute }

// Splits reports whether requests have a line when they arrive, and another one when they end: see Mapping.Arrivals.
func (f *Format) Splits() bool { return f.splits }

// Holds reports whether entries may have what only frames of version 2 say: see Line.Arrived.
func (f *Format) Holds() bool { return f.holds }

// Scanner returns a new scanner of the format.
func (f *Format) Scanner() Scanner { return f.open() }

// formatFields is what a mapping can name of a format.
type formatFields struct {
	Name   string
	Fields []string // "" if lines or their header name them
	JSON   bool     // one object a line: any member can be named
	Auto   bool     // auto finds it
	Reads  Mapping  // the fields that are read without a mapping
}

// listFormats returns all formats but auto, in the order of Formats.
func listFormats() []formatFields {
	var list []formatFields
	for _, s := range styles() {
		f := formatFields{Name: s.name, JSON: s.json, Auto: s.rank > 0, Reads: s.defaults}
		if names, _, err := s.make(Mapping{}); err == nil {
			if fixed, ok := names.(*fixedNames); ok {
				for _, n := range fixed.names {
					f.Fields = append(f.Fields, strings.Join(n, "|"))
				}
			}
		}
		list = append(list, f)
	}
	return list
}

// WriteFormats writes the page that lists the formats, as Markdown.
func WriteFormats(w io.Writer) error {
	if _, err := io.WriteString(w, formatsHead); err != nil {
		return err
	}
	for _, f := range listFormats() {
		fields := "`" + strings.Join(f.Fields, "` `") + "`"
		switch {
		case f.JSON:
			fields = "any member; `a.b` is a member of a member"
		case len(f.Fields) == 0:
			fields = "those that its lines or its header name"
		}
		auto := ""
		if f.Auto {
			auto = "yes"
		}
		m := f.Reads
		client := m.Client.Address
		if m.Client.Forwarded != "" {
			client = strings.Trim(client+", "+m.Client.Forwarded+" behind trusted proxies", ", ")
		}
		time := m.Time
		if time == "" {
			time = "its own"
		}
		if m.TimeAt != TimeAtUnknown {
			time += ", the " + m.TimeAt.String()
		}
		if _, err := fmt.Fprintf(w, "\n## %s\n\n| | |\n|---|---|\n| found by auto | %s |\n| client | %s |\n| time | %s |\n| resource | %s |\n| status | %s |\n| cost | %s |\n| fields for mappings | %s |\n",
			f.Name, auto, code(client), code(time), code(m.Resource), code(m.Status), code(m.Cost), strings.ReplaceAll(fields, "|", "\\|")); err != nil {
			return err
		}
	}
	return nil
}

// code returns s for a cell of a table.
func code(s string) string { return strings.ReplaceAll(s, "|", " or ") }

const formatsHead = `# Formats

Generated by ` + "`floodgate formats`" + `: do not edit. A mapping names fields by these names. ` + "`auto`" + ` takes the first format that reads a
line, and says which; it gives a log up after three requests that none reads.

- ` + "`--format 'nginx:…'`" + ` takes the text of a log_format, and ` + "`--format 'apache:…'`" + ` that of a LogFormat, as it stands in the
  configuration. The fields of the first are its variables without the dollar sign. Those of the second are host (%h), addr (%a),
  peer (%{c}a), ident, user, time, request, method, target, path, query, status, bytes (%b), sent (%O), duration (%T),
  duration_us (%D), vhost (%v), server (%V), port, in_NAME (%{NAME}i, in lower case), out_NAME and cookie_NAME.
  A line counts only if it can be read in one way: put quotes around what clients write.
- ` + "`unwrap`" + ` removes what a collector puts around lines: cri, syslog, or the JSON member log (docker), message, MESSAGE (journald)
  or textPayload. auto finds it. In records of OpenTelemetry it may also be body: see below.
- {client} is the client behind trusted proxies, {net} the network of its address (--net-prefixes), and {asn} its autonomous
  system (--asn-file): net: "{net}", and composite, net_route: "{net}|{resource}". Fields of a log with these names are {net|net}
  and {asn|asn}.
- A caller of kind host is a host name or address as the log has it, in small letters: for logs of servers that look names up. The
  owner of an address chooses its name. No format looks names up.
- replay reads logs that are plain or compressed by gzip, bzip2, xz or zstd. ingest
  follows plain ones, and reads such compressed ones among rotated logs.
- Times without a zone (haproxy, haproxy_tcp, w3c, cloudfront) are read as UTC.
- In a log that is read as combined, the first word before the ident is the client. If your log_format puts text of clients there
  alone (X-Forwarded-For and nothing else), give its text with nginx: instead.
- With trusted proxies (--trusted, or client: trusted of a mapping), combined and vhost_combined read a quoted field right behind
  the user agent as X-Forwarded-For, as it stands in the log_format main of nginx's packages. If yours has something else there,
  give its text with nginx: or apache:.

## When a request arrived, and when it ended

Most logs have one line of a request, and one time. Without more, its arrival and its response both count at that time. A mapping
can say more:

| field of a mapping | what it says |
|---|---|
| ` + "`duration: {field: request_time, unit: s}`" + ` | how long the request took. The arrival counts at the start and the response at the end. The response says when its request arrived, which rules with ` + "`charge: arrival`" + ` need |
| ` + "`time: {at: end}`" + ` or start | which end of the request the time of a line is. The tables below say it of each format's own time. It is needed where they do not, or if the mapping names another time |
| ` + "`cost: {field: tokens, declared: max_tokens}`" + ` | which cost was expected when the request arrived |
| ` + "`arrivals: {access_log_type: DownstreamStart}`" + ` | these lines are arrivals, and all others are responses: for servers that log a request when it arrives, and again when it ends |
| ` + "`arrivals: none`" + ` | all lines are responses, because a sidecar that is asked (--record --holds) reports the arrivals |

- A log with one line of a request, at its end, never holds a part of a limit: its arrival is sent together with its response.
  Without a duration, its requests do not count as in flight either.
- A duration that is missing, cannot be read, is negative or is over a day is taken as 0. Units are s, ms, us and ns.
- With a duration, requests count at their arrival. If a request took longer than the window of a rule, it is late there.
- Such entries need frames of version 2. Update the analyzers before you add a duration. Without one, nothing changes.
- replay makes both entries of a line with a duration, in the order of time. It takes responses for whole requests, and leaves out
  lines that are arrivals. A line is as old as its arrival: --reorder must be longer than requests take.
- A request that the gate refuses after its arrival was logged counts as an arrival. The sidecar's arrivals know better.
- A time in whole seconds puts the arrival up to a second too early. Where a sidecar reports arrivals, name a finer one ($msec).

## Without files

` + "`ingest --grpc-listen 127.0.0.1:9097`" + `, or unix:PATH, takes what programs send by gRPC. Each entry or record becomes
one line of JSON. Formats, mappings and rejects are those of files; the source of a reject is grpc:als or grpc:otlp.

| | Envoy's access log service (ALS) | logs of OpenTelemetry (OTLP) |
|---|---|---|
| sent by | ` + "`envoy.access_loggers.http_grpc`" + ` and ` + "`tcp_grpc`" + `: [accesslog.yaml](../../deploy/envoy/accesslog.yaml) | exporters ` + "`otlp`" + ` of collectors; ` + "`envoy.access_loggers.open_telemetry`" + `. HTTP is not taken |
| format | ` + "`auto`" + ` or ` + "`envoy`" + ` | ` + "`auto`" + `, or any |
| its fields | ` + "`start_time`" + ` ` + "`downstream_remote_address`" + ` ` + "`downstream_direct_remote_address`" + ` ` + "`downstream_local_address`" + ` ` + "`upstream_host`" + ` ` + "`upstream_cluster`" + ` ` + "`route_name`" + ` ` + "`duration`" + ` (ms) ` + "`response_flags`" + ` ` + "`access_log_type`" + ` ` + "`response_code`" + ` ` + "`response_code_details`" + ` ` + "`bytes_received`" + ` ` + "`bytes_sent`" + ` ` + "`method`" + ` ` + "`protocol`" + ` ` + "`path`" + ` ` + "`x_envoy_original_path`" + ` ` + "`authority`" + ` ` + "`scheme`" + ` ` + "`user_agent`" + ` ` + "`referer`" + ` ` + "`x_forwarded_for`" + ` ` + "`request_id`" + ` ` + "`requested_server_name`" + ` ` + "`request_headers.NAME`" + ` ` + "`response_headers.NAME`" + ` ` + "`custom_tags.NAME`" + ` | attributes under their own names, ` + "`resource.NAME`" + `, ` + "`body`" + ` (the members of a body that is a map stand beside the attributes), the record's time as ` + "`@timestamp`" + `, ` + "`timestamp`" + ` and ` + "`time`" + ` |
| a line in the body | – | a format of text, such as combined or nginx:…, reads it. A format of JSON reads the attributes, unless the mapping has ` + "`unwrap: body`" + `. auto finds out by the first record that it can read; name the format if the mapping has callers of your own |
| counts | once, if ingest and Envoy live. An entry that no ingest takes is lost: Envoy keeps none | once after the answer OK, which means that Kafka has all of the request |
| counts twice | never | a request whose answer was lost, if it is sent again to another ingest, or after ingest was killed, or if none of its records has a time finer than a millisecond |
| Kafka is slow | ingest keeps 64 MiB of frames (--buffer), then reads no more. Envoy drops entries and counts them in ` + "`access_logs.grpc_access_log.logs_dropped`" + ` | UNAVAILABLE with RetryInfo after 4 s, and the client sends again |
| ingest is killed | what Envoy sends until another one listens, at most 64 KiB of each stream, and what waits for Kafka is lost | nothing is lost |
| Envoy is killed | what it has not flushed: ` + "`buffer_flush_interval`" + ` | the same |

- A request counts at its end, with the time of its start. If it is told to, Envoy also logs when a request starts, when a long
  one goes on, and attempts upstream. These are left out, and counted in ` + "`floodgate_ingest_intermediate_entries_total`" + `. But if
  the mapping has ` + "`arrivals`" + `, what Envoy logs at the start becomes a line, too.
- Envoy puts ! in place of bytes that are no UTF-8. It joins a header that was sent twice by a comma. It names no method that
  it does not know.
- Fields without a value are left out.
- Whoever reaches the port can invent requests of any caller: let it listen on loopback, on a Unix socket, or where a network
  policy lets only your proxies in. It takes at most 1024 connections, 1024 calls at a time, and 4 MiB a message. Strangers could
  make it hold all of that, 4 GiB.
`
