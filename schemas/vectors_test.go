package schemas

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/509da70d/floodgate/deploy/testenv"
)

// Test vectors for producers and analyzers in other languages: NAME.hex is a frame, and NAME.json what it says. Where
// the name starts with rejects_ there is no .json, and the first line names the reason.
const vectorDir = "../testdata/frames"

// vectorJSON is a frame in a test vector. Numbers of 64 bits are strings, as JSON readers need them.
type vectorJSON struct {
	Producer    string      `json:"producer"` // hex
	Source      bool        `json:"source"`
	Seq         uint64      `json:"seq,string"`
	Flushed     int64       `json:"flushed,string"`
	Partitions  uint32      `json:"partitions"`
	Fingerprint string      `json:"fingerprint"` // hex
	Entries     []entryJSON `json:"entries"`
}

type entryJSON struct {
	Time     int64  `json:"time,string"`
	Kind     string `json:"kind"`
	ID       string `json:"id,omitempty"`
	IDHex    string `json:"id_hex,omitempty"` // where the id is not UTF-8
	Resource string `json:"resource"`
	Cost     int64  `json:"cost,string"`
	Arrived  int64  `json:"arrived,string,omitempty"`
	Declared int64  `json:"declared,string,omitempty"`
	Offset   int64  `json:"offset,string"`
	Count    uint32 `json:"count"`
	Status   uint16 `json:"status"`
	Blocked  bool   `json:"blocked"`
	Response bool   `json:"response"`
	Early    bool   `json:"early"`
}

// vectorFrames are the frames that must be read.
func vectorFrames() map[string]Frame {
	extremes := Frame{
		Producer: ProducerID(bytes.Repeat([]byte{0xff}, 16)), Source: true,
		Flushed: math.MinInt64, Partitions: math.MaxUint32, Fingerprint: math.MaxUint64,
		Entries: []Entry{
			{Time: math.MinInt64, Kind: "0", ID: "\x00\xff", Count: 1},
			{Time: math.MaxInt64, Kind: strings.Repeat("k", MaxCallerKind), ID: strings.Repeat("i", MaxCallerID),
				Resource: strings.Repeat("r", MaxResource), Cost: math.MaxInt64, Offset: math.MaxInt64,
				Count: math.MaxUint32, Status: math.MaxUint16, Blocked: true, Response: true, Early: true},
			{Kind: "_", ID: strings.Repeat("\xff", MaxCallerID), Count: 1, Blocked: true, Early: true},
		},
	}
	earlySource := newEarlyFrame()
	earlySource.Source, earlySource.Seq = true, 0
	holdsSource := newHoldsFrame()
	holdsSource.Source, holdsSource.Seq = true, 0
	return map[string]Frame{
		"reads_holds": newHoldsFrame(), "reads_holds_source": holdsSource,
		"reads_producer": newFrame(), "reads_source": newSourceFrame(), "reads_extremes": extremes,
		"reads_early": newEarlyFrame(), "reads_early_source": earlySource, "reads_empty": {Seq: math.MaxUint64},
	}
}

// vectorRejects are changes to the frame of early entries after which it must be refused, by reason and name. All but crc are
// sealed again.
func vectorRejects() map[string]func(b []byte) []byte {
	entry := func(b []byte) []byte { return b[len(b)-frameEntry:] }
	flags := func(v byte) func(b []byte) []byte {
		return func(b []byte) []byte { entry(b)[entryFlagsAt] = v; return b }
	}
	return map[string]func(b []byte) []byte{
		"short header":       func(b []byte) []byte { return b[:frameHeader-1] },
		"short entries":      func(b []byte) []byte { return b[:len(b)-1] },
		"magic":              func(b []byte) []byte { b[1] = 'G'; return b },
		"version 0":          func(b []byte) []byte { b[frameVersionAt] = 0; return b },
		"version 3":          func(b []byte) []byte { b[frameVersionAt] = 3; return b },
		"version 257":        func(b []byte) []byte { b[frameVersionAt+1] = 1; return b },
		"crc":                func(b []byte) []byte { b[frameProducerAt] ^= 1; return b },
		"bounds trailing":    func(b []byte) []byte { return append(b, 0) },
		"bounds seq":         func(b []byte) []byte { clear(b[frameSeqAt:][:8]); return b },
		"bounds flag":        func(b []byte) []byte { b[frameFlagsAt] = 2; return b },
		"bounds reserved":    func(b []byte) []byte { b[frameReservedAt] = 1; return b },
		"bounds offset":      func(b []byte) []byte { b[frameHeader+frameOffset] = 0xff; return b },
		"entry string":       func(b []byte) []byte { entry(b)[entryIDAt] = 200; return b },
		"entry kind":         func(b []byte) []byte { copy(entry(b)[entryKindAt:], entry(b)[entryResourceAt:][:2]); return b },
		"entry count":        func(b []byte) []byte { clear(entry(b)[entryCountAt:][:4]); return b },
		"entry cost":         func(b []byte) []byte { entry(b)[entryCostAt+7] = 0xff; return b },
		"entry flag":         flags(entryFlags + 1),
		"entry flags":        flags(math.MaxUint8),
		"entry early alone":  flags(entryFlagEarly),
		"entry early answer": flags(entryFlagEarly | entryFlagResponse),
		"entry reserved":     func(b []byte) []byte { entry(b)[entryReservedAt] = 1; return b },
		"short huge text":    func(b []byte) []byte { copy(b[frameTextAt:], "\xff\xff\xff\xff"); return b },
		"short many string":  func(b []byte) []byte { copy(b[frameStringsAt:], "\xff\xff"); return b },
	}
}

// vectorRejectsOfHolds are such changes to the frame of entries that hold.
func vectorRejectsOfHolds() map[string]func(b []byte) []byte {
	return map[string]func(b []byte) []byte{
		"short holds":    func(b []byte) []byte { return b[:len(b)-frameHoldsEntry] },
		"entry arrived":  func(b []byte) []byte { b[len(b)-frameHoldsEntry+entryArrivedAt+7] = 0x80; return b },
		"entry declared": func(b []byte) []byte { b[len(b)-frameHoldsEntry+entryDeclaredAt+7] = 0x80; return b },
	}
}

func TestVectors(t *testing.T) {
	want := make(map[string]string) // file → content
	reads := func(name string, f Frame, b []byte) {
		want[name+".hex"] = annotate(b)
		text, err := json.MarshalIndent(toJSON(f), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		want[name+".json"] = string(text) + "\n"
	}
	rejects := func(name string, b []byte) {
		reason, _, _ := strings.Cut(name, " ")
		if reason != "crc" && len(b) >= frameHeader {
			reseal(b)
		}
		want["rejects_"+strings.ReplaceAll(name, " ", "_")+".hex"] = "# reason: " + reason + "\n" + hexLines(b)
	}
	for name, f := range vectorFrames() {
		reads(name, f, encode(t, f))
	}
	for name, change := range vectorRejects() {
		rejects(name, change(encode(t, newEarlyFrame())))
	}
	for name, change := range vectorRejectsOfHolds() {
		rejects(name, change(encode(t, newHoldsFrame())))
	}
	if testenv.Update() {
		writeVectors(t, want)
	}
	files, err := os.ReadDir(vectorDir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(want) {
		t.Errorf("got %d files, want %d: %s writes them", len(files), len(want), testenv.UpdateCommand(t))
	}
	for name, text := range want {
		if got, err := os.ReadFile(filepath.Join(vectorDir, name)); err != nil || string(got) != text {
			t.Errorf("%s differs (%v): the layout changed; a new layout is a new version. %s writes it", name, err, testenv.UpdateCommand(t))
		}
	}
}

// The vectors say by themselves what they mean, as another implementation would read them.
func TestVectorsDecode(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(vectorDir, "*.hex"))
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, b := readVector(t, file)
			var f Frame
			err := f.Decode(b)
			if reason, rejects := strings.CutPrefix(text, "# reason: "); rejects {
				reason, _, _ = strings.Cut(reason, "\n")
				if Reason(err) != reason {
					t.Errorf("got %v, want reason %s", err, reason)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(strings.TrimSuffix(file, ".hex") + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var want vectorJSON
			if err := json.Unmarshal(data, &want); err != nil {
				t.Fatal(err)
			}
			if got := toJSON(f); !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			if again := encode(t, f); !bytes.Equal(again, b) {
				t.Errorf("encoded again: got\n%swant\n%s", annotate(again), annotate(b))
			}
		})
	}
}

// readVector returns the text of a .hex file, and its bytes: everything but spaces and comments.
func readVector(t testing.TB, file string) (text string, b []byte) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var digits strings.Builder
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	if b, err = hex.DecodeString(digits.String()); err != nil {
		t.Fatal(err)
	}
	return string(data), b
}

func writeVectors(t *testing.T, files map[string]string) {
	t.Helper()
	if err := os.RemoveAll(vectorDir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(vectorDir, 0o750); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(vectorDir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func toJSON(f Frame) vectorJSON {
	v := vectorJSON{
		Producer: hex.EncodeToString(f.Producer[:]), Source: f.Source, Seq: f.Seq, Flushed: f.Flushed,
		Partitions: f.Partitions, Fingerprint: fmt.Sprintf("%016x", f.Fingerprint), Entries: []entryJSON{},
	}
	for _, e := range f.Entries {
		j := entryJSON{
			Time: e.Time, Kind: e.Kind, ID: e.ID, Resource: e.Resource, Cost: e.Cost, Offset: e.Offset, Arrived: e.Arrived, Declared: e.Declared,
			Count: e.Count, Status: e.Status, Blocked: e.Blocked, Response: e.Response, Early: e.Early,
		}
		if !utf8.ValidString(e.ID) {
			j.ID, j.IDHex = "", hex.EncodeToString([]byte(e.ID))
		}
		v.Entries = append(v.Entries, j)
	}
	return v
}

// hexLines returns b in lines of 32 bytes.
func hexLines(b []byte) string {
	var out strings.Builder
	for len(b) > 0 {
		n := min(len(b), 32)
		fmt.Fprintf(&out, "%x\n", b[:n])
		b = b[n:]
	}
	return out.String()
}

// annotate returns the bytes of a well-formed frame, a field a line.
func annotate(b []byte) string {
	var out strings.Builder
	at := 0
	field := func(n int, name string) {
		fmt.Fprintf(&out, "%-32x # %4d  %s\n", b[at:at+n], at, name)
		at += n
	}
	strs := int(binary.LittleEndian.Uint16(b[frameStringsAt:]))
	entries := int(binary.LittleEndian.Uint16(b[frameEntriesAt:]))
	source := b[frameFlagsAt]&frameFlagSource != 0
	for _, f := range []struct {
		n    int
		name string
	}{
		{2, "magic"}, {2, "version"}, {4, "checksum"}, {16, "producer"}, {8, "seq"}, {8, "flushed"}, {8, "fingerprint"},
		{4, "partitions"}, {4, "text bytes"}, {2, "strings"}, {2, "entries"}, {1, "flags"}, {3, "reserved"},
	} {
		field(f.n, f.name)
	}
	for i := range strs + 1 {
		field(frameOffset, fmt.Sprint("offset ", i))
	}
	for i := range strs {
		offsets := b[frameHeader+i*frameOffset:]
		field(int(binary.LittleEndian.Uint32(offsets[frameOffset:])-binary.LittleEndian.Uint32(offsets)), fmt.Sprint("string ", i))
	}
	for i := range entries {
		for _, f := range []struct {
			n    int
			name string
		}{
			{8, "time"}, {8, "cost"}, {4, "count"}, {2, "id"}, {2, "resource"}, {2, "kind"}, {2, "status"}, {1, "flags"}, {3, "reserved"},
		} {
			field(f.n, fmt.Sprintf("entry %d: %s", i, f.name))
		}
		if source {
			field(8, fmt.Sprintf("entry %d: source offset", i))
		}
		if FrameVersionOf(b) == frameVersionHolds {
			field(8, fmt.Sprintf("entry %d: arrived", i))
			field(8, fmt.Sprintf("entry %d: declared", i))
		}
	}
	return out.String()
}
