package decisions_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// vectorTime is when the vectors take place, and part is the partition that they are about.
const (
	vectorTime = int64(1_772_452_800_000_000_000)
	hour       = int64(time.Hour)
	part       = 2
)

// recordValueJSON is a reads_NAME.json.
type recordValueJSON struct {
	Record string            `json:"record"`
	Fields map[string]string `json:"fields"`
}

// valueJSON is what the code reads in a value.
func valueJSON(r pb.Record) recordValueJSON {
	v := recordValueJSON{Fields: map[string]string{}}
	set := func(name string, x any) { v.Fields[name] = fmt.Sprint(x) }
	set("partition", r.Partition())
	set("epoch", r.Epoch())
	switch {
	case r.Claim != nil:
		v.Record = "claim"
		set("nonce", r.Claim.Nonce)
		set("owner", r.Claim.Owner)
	case r.Heartbeat != nil:
		h := r.Heartbeat
		v.Record = "heartbeat"
		for name, x := range map[string]any{
			"seq": h.Seq, "time": h.Time, "watermark": h.Watermark, "log_time": h.LogTime, "lag": h.Lag, "from": h.From, "state": h.State,
			"rules_id": h.RulesID, "rules_from": h.RulesFrom,
		} {
			set(name, x)
		}
		if h.API != "" {
			set("api", h.API)
		}
		if h.Control != 0 {
			set("control", h.Control)
		}
	default:
		d, e := r.Decision, r.Decision.Evidence
		v.Record = "decision"
		for name, x := range map[string]any{
			"rule": d.Rule, "rule_version": d.RuleVersion, "kind": d.Caller.Kind, "id_hex": hex.EncodeToString([]byte(d.Caller.ID)),
			"mode": uint8(d.Mode), "close_at": d.CloseAt, "until": d.Until, "seq": d.Seq,
			"evidence.count": e.Count, "evidence.limit": e.Limit, "evidence.window": e.Window, "evidence.window_start": e.WindowStart,
			"evidence.rate": e.Rate, "evidence.as_of_offset": e.AsOfOffset, "evidence.as_of_time": e.AsOfTime, "evidence.lag": e.Lag,
		} {
			set(name, x)
		}
		setPrediction(set, d)
	}
	return v
}

// setPrediction sets what a decision says of early closures and shares. What it does not say is left out.
func setPrediction(set func(name string, x any), d *schemas.Decision) {
	if d.Early {
		set("early", true)
	}
	if d.Held {
		set("held", true)
	}
	for name, x := range map[string]int64{"held": d.Evidence.Held, "in_flight": d.Evidence.InFlight, "margin": d.Evidence.Margin, "learned": d.Evidence.Learned} {
		if x != 0 {
			set("evidence."+name, x)
		}
	}
	if next := d.Next; next != (schemas.Span{}) {
		set("next.close_at", next.CloseAt)
		set("next.until", next.Until)
		if next.Early {
			set("next.early", true)
		}
	}
	if s := d.Share; s != nil {
		for name, x := range map[string]int64{
			"from": s.From, "until": s.Until, "period": s.Period, "permits": s.Permits,
			"demand_from": s.DemandFrom, "demand_until": s.DemandUntil, "demand": s.Demand,
		} {
			set("share."+name, x)
		}
	}
	for name, x := range map[string]float64{"expected": d.Evidence.Expected, "bound": d.Evidence.Bound} {
		if x != 0 {
			set("evidence."+name, x)
		}
	}
}

// docJSON is what the document reads in a value.
func docJSON(r docRecord) recordValueJSON {
	i64 := func(n int) string { return strconv.FormatInt(int64(r.numbers[n]), 10) }
	u64 := func(n int) string { return strconv.FormatUint(r.numbers[n], 10) }
	partition, epoch := strconv.Itoa(int(r.partition)), strconv.FormatUint(r.epoch, 10)
	switch r.member {
	case 2:
		return recordValueJSON{"claim", map[string]string{"partition": partition, "epoch": epoch, "nonce": u64(3), "owner": string(r.texts[4])}}
	case 3:
		v := recordValueJSON{"heartbeat", map[string]string{
			"partition": partition, "epoch": epoch, "seq": u64(3), "time": i64(4), "watermark": i64(5), "log_time": i64(6), "lag": i64(7),
			"from": i64(8), "state": i64(9), "rules_id": u64(10), "rules_from": i64(11),
		}}
		if len(r.texts[12]) > 0 {
			v.Fields["api"] = string(r.texts[12])
		}
		if r.numbers[13] != 0 {
			v.Fields["control"] = i64(13)
		}
		return v
	}
	e := docNumbers(r.texts[11], " 00011010110000")
	v := recordValueJSON{"decision", map[string]string{
		"partition": partition, "epoch": epoch, "seq": u64(10), "rule": r.rule, "rule_version": u64(2), "kind": r.kind,
		"id_hex": hex.EncodeToString([]byte(r.id)), "mode": strconv.FormatUint(r.mode, 10),
		"close_at": strconv.FormatInt(r.closeAt, 10), "until": strconv.FormatInt(r.until, 10), "evidence.rate": fmt.Sprint(docRate(e[5])),
	}}
	for n, name := range []string{1: "count", 2: "limit", 3: "window", 4: "window_start", 6: "as_of_offset", 7: "as_of_time", 8: "lag"} {
		if name != "" {
			v.Fields["evidence."+name] = strconv.FormatInt(int64(e[n]), 10)
		}
	}
	for n, name := range []string{11: "held", 12: "in_flight", 13: "margin", 14: "learned"} {
		if name != "" && e[n] != 0 {
			v.Fields["evidence."+name] = strconv.FormatInt(int64(e[n]), 10)
		}
	}
	docPrediction(v.Fields, &r, docRate(e[9]), docRate(e[10]))
	return v
}

// docPrediction adds what a decision says of early closures and shares, by the document.
func docPrediction(fields map[string]string, r *docRecord, expected, bound float64) {
	for name, is := range map[string]bool{"early": r.early, "held": r.held, "next.early": r.next.early} {
		if is {
			fields[name] = "true"
		}
	}
	if r.next != (docSpan{}) {
		fields["next.close_at"], fields["next.until"] = strconv.FormatInt(r.next.closeAt, 10), strconv.FormatInt(r.next.until, 10)
	}
	if r.share[3] != 0 {
		for n, name := range []string{1: "from", 2: "until", 3: "period", 4: "permits", 5: "demand_from", 6: "demand_until", 7: "demand"} {
			if name != "" {
				fields["share."+name] = strconv.FormatInt(r.share[n], 10)
			}
		}
	}
	for name, x := range map[string]float64{"expected": expected, "bound": bound} {
		if x != 0 {
			fields["evidence."+name] = fmt.Sprint(x)
		}
	}
}

// docRate is a double of Evidence: 0 where it is no number from 0 on.
func docRate(bits uint64) float64 {
	rate := math.Float64frombits(bits)
	if !(rate >= 0) || math.IsInf(rate, 1) {
		return 0
	}
	return rate
}

func decision(change func(d *schemas.Decision)) pb.Record {
	d := &schemas.Decision{
		Rule: "per-ip", RuleVersion: 0xfeedfacecafebeef, Caller: schemas.Caller{Kind: "ip", ID: "203.0.113.9"}, Mode: schemas.ModeEnforce,
		CloseAt: vectorTime - hour, Until: vectorTime + hour, Partition: part, Epoch: 20, Seq: 7,
		Evidence: schemas.Evidence{
			Count: 101, Limit: 100, Window: 60e9, WindowStart: vectorTime - 60e9, Rate: 12.5, AsOfOffset: 99, AsOfTime: vectorTime - hour, Lag: 3e6,
		},
	}
	change(d)
	return pb.Record{Decision: d}
}

func mustEncode(t *testing.T, r pb.Record) []byte {
	t.Helper()
	var b []byte
	var err error
	switch {
	case r.Decision != nil:
		b, err = pb.AppendDecision(nil, r.Decision)
	case r.Claim != nil:
		b, err = pb.AppendClaim(nil, r.Claim)
	default:
		b, err = pb.AppendHeartbeat(nil, r.Heartbeat)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// member returns a value with a member of DecisionsRecord that says what the fields do.
func member(number protowire.Number, fields ...[]byte) []byte {
	var b []byte
	for _, f := range fields {
		b = append(b, f...)
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), b)
}

func varint(number protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), v)
}

func fixed(number protowire.Number, v uint64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(nil, number, protowire.Fixed64Type), v)
}

func text(number protowire.Number, v string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), v)
}

// readValues are values that must be read.
func readValues(t *testing.T) map[string][]byte {
	t.Helper()
	values := readPredictions(t)
	plain := mustEncode(t, decision(func(*schemas.Decision) {}))
	least := [][]byte{text(3, "key"), text(4, "k"), varint(5, 1)}
	extremes := decision(func(d *schemas.Decision) {
		d.Rule, d.Caller = strings.Repeat("r", pb.MaxRule), schemas.Caller{Kind: strings.Repeat("k", 32), ID: strings.Repeat("\xff", 256)}
		d.CloseAt, d.Until, d.Partition, d.Epoch, d.Seq = math.MaxInt64, math.MaxInt64, math.MaxInt32, math.MaxUint64, math.MaxUint64
		d.Evidence = schemas.Evidence{Count: -1, Limit: -1, Window: -1, WindowStart: -1, Rate: math.MaxFloat64, AsOfOffset: -1, AsOfTime: -1, Lag: -1}
	})
	maps.Copy(values, map[string][]byte{
		"decision": plain,
		"claim":    mustEncode(t, pb.Record{Claim: &schemas.Claim{Partition: part, Epoch: 20, Nonce: math.MaxUint64, Owner: "analyzer-1/4711"}}),
		"heartbeat": mustEncode(t, pb.Record{Heartbeat: &schemas.Heartbeat{
			Partition: part, Epoch: 20, Seq: 18, Time: vectorTime, Watermark: 100, LogTime: vectorTime - 1e7, Lag: 3e6, From: 42, State: 7,
			RulesID: math.MaxUint64, RulesFrom: 50,
		}}),
		"heartbeat_api": mustEncode(t, pb.Record{Heartbeat: &schemas.Heartbeat{
			Partition: part, Epoch: 20, Seq: 18, Time: vectorTime, API: "analyzer-1.example:9096", Control: math.MaxInt64,
		}}),
		"claim_empty":        member(2),
		"heartbeat_empty":    member(3),
		"heartbeat_negative": member(3, varint(8, math.MaxUint64), fixed(4, 1<<63)),
		"decision_least":     member(1, least...),
		"decision_extremes":  mustEncode(t, extremes),
		"decision_shadow":    mustEncode(t, decision(func(d *schemas.Decision) { d.Mode, d.Evidence = schemas.ModeShadow, schemas.Evidence{} })),
		"decision_opening":   mustEncode(t, decision(func(d *schemas.Decision) { d.Until = 0 })),
		"decision_too_long":  member(1, append(least, fixed(6, 1000), fixed(7, math.MaxInt64))...),
		"decision_no_rate":   member(1, append(least, text(11, string(fixed(5, math.Float64bits(math.NaN())))))...),
		"unknown_fields":     append(append(varint(99, 7), plain...), member(1, varint(1000, 1), text(1001, "later"))...),
		"unknown_group":      append([]byte{0x7b, 0x08, 0x01, 0x7c}, plain...),
		"other_wire_types":   member(2, text(1, "no number"), varint(2, 20), varint(3, 9), fixed(4, 9)),
		"last_member_wins":   append(member(2, varint(2, 20)), member(3, varint(2, 21))...),
		"same_member_merges": append(member(3, varint(2, 20), varint(3, 1)), member(3, varint(3, 2))...),
		"last_field_wins":    member(2, varint(2, 20), varint(2, 21)),
		"low_32_bits":        member(2, varint(1, 7<<32+part), varint(2, 20)),
	})
	return values
}

// rejectValues are values that must be refused; a name begins with the reason.
func rejectValues(t *testing.T) map[string][]byte {
	t.Helper()
	values := rejectPredictions(t)
	plain := mustEncode(t, decision(func(*schemas.Decision) {}))
	with := func(fields ...[]byte) []byte { // the later field counts
		return append(append([]byte{}, plain...), member(1, fields...)...)
	}
	maps.Copy(values, map[string][]byte{
		"malformed_cut":         plain[:len(plain)-1],
		"malformed_varint":      {0x0a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02},
		"malformed_length":      {0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f},
		"malformed_field_0":     {0x02, 0x00},
		"malformed_wire_type_7": {0x0f},
		"malformed_open_group":  append([]byte{0x7b, 0x08, 0x01}, plain...),
		"malformed_utf8":        with(text(1, "\xff")),
		"malformed_evidence":    with(text(11, "\x08")),
		"unknown_empty":         {},
		"unknown_member":        {0x7a, 0x02, 0x08, 0x01},
		"bounds_long":           append(append([]byte{}, plain...), text(99, strings.Repeat("x", pb.MaxRecord))...),
		"bounds_rule":           with(text(1, strings.Repeat("r", pb.MaxRule+1))),
		"bounds_owner":          member(2, text(4, strings.Repeat("o", pb.MaxOwner+1))),
		"bounds_api":            member(3, text(12, strings.Repeat("a", pb.MaxAPI+1))),
		"malformed_api":         member(3, text(12, "\xff")),
		"bounds_partition":      member(3, varint(1, math.MaxUint64)),
		"mode_none":             with(varint(5, 0)),
		"mode_3":                with(varint(5, 3)),
		"mode_257":              with(varint(5, 257)),
		"caller_kind_none":      with(text(3, "")),
		"caller_kind_colon":     with(text(3, "a:b")),
		"caller_kind_long":      with(text(3, strings.Repeat("k", 33))),
		"caller_id_none":        with(text(4, "")),
		"caller_id_long":        with(text(4, strings.Repeat("i", 257))),
	})
	return values
}

func epochVectors() []epochJSON {
	const ms = int64(time.Millisecond)
	last := func(at int64) uint64 { return uint64((at + int64(schemas.MaxEpochLead)) / ms) }
	lead := int64(schemas.MaxRecordLead)
	list := []epochJSON{
		{Epoch: 0, Time: vectorTime, Now: vectorTime}, {Epoch: last(vectorTime), Time: vectorTime, Now: vectorTime},
		{Epoch: last(vectorTime) + 1, Time: vectorTime, Now: vectorTime},
		{Epoch: last(vectorTime + lead), Time: vectorTime + lead, Now: vectorTime},
		{Epoch: last(vectorTime + lead), Time: math.MaxInt64, Now: vectorTime},
		{Epoch: last(vectorTime+lead) + 1, Time: math.MaxInt64, Now: vectorTime},
		{Epoch: math.MaxUint64, Time: vectorTime, Now: vectorTime}, {Epoch: 1 << 63, Time: math.MaxInt64, Now: vectorTime},
		{Epoch: 0, Time: math.MinInt64, Now: vectorTime}, {Epoch: last(vectorTime), Time: vectorTime + ms - 1, Now: vectorTime},
		{Epoch: last(0), Time: 0, Now: vectorTime}, {Epoch: last(0) + 1, Time: 0, Now: vectorTime},
	}
	for i := range list {
		list[i].Allows = schemas.CheckEpoch(list[i].Epoch, list[i].Time, list[i].Now) == nil
	}
	return list
}

// reopeningJSON is a closure, and when a gate reopens.
type reopeningJSON struct {
	Kind    string `json:"kind"`
	ID      string `json:"id"`
	CloseAt int64  `json:"close_at,string"`
	Until   int64  `json:"until,string"`
	Reopens int64  `json:"reopens,string"`
}

// vectorLog is a Log that ends before an offset.
type vectorLog struct {
	start, end int64
	records    []kafkaio.Record
	next       int64
	now        int64
}

func memoryOf(t *testing.T, p *partitionJSON) *vectorLog {
	t.Helper()
	log := &vectorLog{start: p.Start, end: p.Start, now: p.Now}
	for i, r := range p.Records {
		for n := range 1 + r.Copies {
			log.records = append(log.records, kafkaio.Record{Offset: r.Offset + int64(n), Time: r.Time, Value: unhex(t, r.Value)})
		}
		if i < p.Present {
			log.end = r.Offset + int64(r.Copies) + 1
		}
	}
	return log
}

func (l *vectorLog) clock() time.Time { return time.Unix(0, l.now) }

func (l *vectorLog) Range(context.Context) (start, end int64, err error) {
	if n := len(l.records); n > 0 {
		l.end = min(l.end, l.records[n-1].Offset+1)
	}
	return l.start, l.end, nil
}

func (l *vectorLog) MoveTo(offset int64) { l.next = offset }

func (l *vectorLog) Scan(_ context.Context, end int64, f func(b *kafkaio.Batch) error) error {
	b := kafkaio.Batch{Next: end}
	for _, r := range l.records {
		if r.Offset >= l.next && r.Offset < end {
			b.Records = append(b.Records, r)
		}
	}
	l.next = end
	return f(&b)
}
