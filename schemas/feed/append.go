package feed

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/509da70d/floodgate/schemas"
)

// AppendStart appends the first line of a feed.
func AppendStart(b []byte, resumed bool) []byte {
	b = append(b, `{"type":"start","version":`...)
	b = strconv.AppendInt(b, Version, 10)
	if resumed {
		b = append(b, `,"resumed":true`...)
	}
	return append(b, "}\n"...)
}

// AppendCurrent appends the line that says that everything in force has come.
func AppendCurrent(b []byte, cursor uint64) []byte {
	return append(appendCursor(append(b, `{"type":"current"`...), cursor), "}\n"...)
}

// AppendDecision appends a decision. Opens are the times at which gates open after its closure and after Next, with jitter: at least
// their ends. Without spans that last, and without share, the line opens the caller. A cursor of 0 is left out.
func AppendDecision(b []byte, d *schemas.Decision, opens [2]int64, cursor uint64) []byte {
	b = append(b, `{"type":"decision"`...)
	if d.Rule != "" {
		b = appendText(append(b, `,"rule":`...), d.Rule)
	}
	b = appendText(append(b, `,"kind":`...), d.Caller.Kind)
	if utf8.ValidString(d.Caller.ID) {
		b = appendText(append(b, `,"id":`...), d.Caller.ID)
	} else {
		b = base64.StdEncoding.AppendEncode(append(b, `,"id_base64":"`...), []byte(d.Caller.ID))
		b = append(b, '"')
	}
	b = append(append(append(b, `,"mode":"`...), d.Mode.String()...), '"')
	b = appendSpans(b, d, opens)
	if s := d.Share; s != nil {
		b = appendShare(b, s)
	}
	if d.Evidence.Limit != 0 {
		b = strconv.AppendInt(append(b, `,"limit":`...), d.Evidence.Limit, 10)
	}
	if d.Evidence.Window != 0 {
		b = seconds(d.Evidence.Window).append(append(b, `,"window":`...))
	}
	if d.Partition != 0 {
		b = strconv.AppendInt(append(b, `,"partition":`...), int64(d.Partition), 10)
	}
	return append(appendCursor(b, cursor), "}\n"...)
}

func appendSpans(b []byte, d *schemas.Decision, opens [2]int64) []byte {
	before := len(b)
	for i, s := range [...]schemas.Span{{CloseAt: d.CloseAt, Until: d.Until, Early: d.Early}, d.Next} {
		if s.CloseAt >= s.Until {
			continue
		}
		separator := `,"spans":[`
		if len(b) > before {
			separator = ","
		}
		b = seconds(s.CloseAt).append(append(append(b, separator...), `{"from":`...))
		b = seconds(opens[i]).append(append(b, `,"until":`...))
		if opens[i] > s.Until {
			b = seconds(opens[i] - s.Until).append(append(b, `,"jitter":`...))
		}
		if s.Early {
			b = append(b, `,"early":true`...)
			if d.Held && i == 0 {
				b = append(b, `,"held":true`...)
			}
		}
		b = append(b, '}')
	}
	if len(b) > before {
		b = append(b, ']')
	}
	return b
}

func appendShare(b []byte, s *schemas.Share) []byte {
	b = seconds(s.From).append(append(b, `,"share":{"from":`...))
	b = seconds(s.Until).append(append(b, `,"until":`...))
	b = seconds(s.Period).append(append(b, `,"period":`...))
	b = strconv.AppendInt(append(b, `,"permits":`...), s.Permits, 10)
	b = seconds(s.DemandFrom).append(append(b, `,"demand_from":`...))
	b = seconds(s.DemandUntil).append(append(b, `,"demand_until":`...))
	return append(strconv.AppendInt(append(b, `,"demand":`...), s.Demand, 10), '}')
}

// AppendHeartbeat appends a heartbeat that is sent at a time in Unix nanoseconds. A cursor of 0 is left out.
func AppendHeartbeat(b []byte, at int64, partitions []Partition, cursor uint64) []byte {
	b = seconds(at).append(append(b, `{"type":"heartbeat","at":`...))
	if len(partitions) > 0 {
		b = append(b, `,"partitions":[`...)
		for i := range partitions {
			if i > 0 {
				b = append(b, ',')
			}
			b = partitions[i].append(b)
		}
		b = append(b, ']')
	}
	return append(appendCursor(b, cursor), "}\n"...)
}

func (p *Partition) append(b []byte) []byte {
	b = append(append(append(b, `{"state":"`...), p.State...), '"')
	if p.Epoch > 0 {
		b = seconds(p.Age).append(append(b, `,"age":`...))
		b = seconds(p.Lag).append(append(b, `,"lag":`...))
		b = strconv.AppendUint(append(b, `,"epoch":`...), p.Epoch, 10)
		b = strconv.AppendUint(append(b, `,"seq":`...), p.Seq, 10)
		b = strconv.AppendInt(append(b, `,"watermark":`...), p.Watermark, 10)
	}
	return append(b, '}')
}

func appendCursor(b []byte, cursor uint64) []byte {
	if cursor == 0 {
		return b
	}
	return append(strconv.AppendUint(append(b, `,"cursor":"`...), cursor, 10), '"')
}

// appendText appends a text of UTF-8 as JSON.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return appendQuoted(b, text)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}

// appendQuoted appends a text that may need quoting.
func appendQuoted(b []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic("BUG: " + err.Error()) // strings have none
	}
	return append(b, quoted...)
}
