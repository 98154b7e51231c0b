package ingest

import "strings"

// columns reads lines that are a row of fields with a space between them, each bare, in quotes or in brackets, in an order
// that never changes: Envoy's default text and the access logs of AWS application load balancers.
type columns struct {
	request int  // the field that is a request line; the method and the target go behind all fields
	fields  int  // how many there are
	quotes  int  // how many quotes a line has, where those inside of fields are not escaped; 0 is any number, escaped
	needed  int  // fields up to here are read: nothing behind is asked for
	escapes bool // a backslash escapes a quote
}

// newColumns returns what reads fields of these names, of which one is a request line; its parts are method and target.
func newColumns(layout columns, names ...string) func(Mapping) (fieldNames, func() decoder, error) {
	return func(Mapping) (fieldNames, func() decoder, error) {
		fixed := newFixedNames(append(names, "method", "target|path"))
		return fixed, func() decoder {
			c := layout
			c.fields = len(names)
			for i := range names {
				if fixed.asked(i) || i == c.request && (fixed.asked(len(names)) || fixed.asked(len(names)+1)) {
					c.needed = i + 1
				}
			}
			return &c
		}, nil
	}
}

// decode implements decoder. Fields that are not there leave no value. A line in which a quote stands inside of a field,
// unescaped, is refused whole: what is whose can't be told, and whoever wrote the quote may mean to be somebody else.
func (c *columns) decode(s string, values []string, _ *Line) Reason {
	if c.quotes > 0 && strings.Count(s, `"`) > c.quotes {
		return Ambiguous
	}
	for i := 0; i < c.needed && s != ""; i++ {
		values[i], s = c.next(s)
	}
	values[c.fields], values[c.fields+1] = splitRequest(values[c.request])
	return MissingField
}

// next returns the first field of s and what follows the space behind it. A field that is cut short is none.
func (c *columns) next(s string) (field, rest string) {
	var end int
	switch {
	case s[0] == '"' && c.escapes:
		end = stringEnd(s, 1)
	case s[0] == '"':
		end = strings.IndexByte(s[1:], '"') + 1
	case s[0] == '[':
		end = strings.IndexByte(s, ']')
	default:
		field, rest, found := strings.Cut(s, " ")
		if !found {
			return "", "" // it may be the start of another: 1.2.3.41 begins with an address too
		}
		return field, rest
	}
	if end <= 0 || end >= len(s) {
		return "", "" // as above; and who forwarded an address stands at the end of the field
	}
	return s[1:end], strings.TrimPrefix(s[end+1:], " ")
}

// textStyles are the formats of lines of text.
func textStyles() []style {
	clf := Mapping{Client: Client{Address: "ip"}, Resource: "target"}
	return []style{
		{name: "combined", defaults: clf, dash: true, native: true, make: newCLF(combinedFields)},
		{name: "common", defaults: clf, dash: true, native: true, make: newCLF(commonFields)},
		{
			name: "envoy_text", dash: true,
			defaults: Mapping{
				Client: Client{Forwarded: "x_forwarded_for"}, Time: "start_time", Layout: TimeRFC3339, Resource: "target",
				Status: "response_code", Cost: "bytes_sent",
			},
			make: newColumns(columns{request: 1, quotes: 12}, "start_time", "request", "response_code", "response_flags",
				"bytes_received", "bytes_sent", "duration", "upstream_service_time", "x_forwarded_for", "user_agent",
				"request_id", "authority", "upstream_host"),
		},
		{
			name: "alb", dash: true,
			defaults: Mapping{
				Client: Client{Address: "client:port"}, Time: "time", Layout: TimeRFC3339, Resource: "target",
				Status: "elb_status_code", Cost: "sent_bytes",
			},
			make: newColumns(columns{request: 12, escapes: true}, "type", "time", "elb", "client:port", "target:port",
				"request_processing_time", "target_processing_time", "response_processing_time", "elb_status_code",
				"target_status_code", "received_bytes", "sent_bytes", "request", "user_agent", "ssl_cipher", "ssl_protocol",
				"target_group_arn", "trace_id", "domain_name", "chosen_cert_arn", "matched_rule_priority",
				"request_creation_time", "actions_executed", "redirect_url", "error_reason", "target:port_list",
				"target_status_code_list", "classification", "classification_reason", "conn_trace_id"),
		},
	}
}
