package ingest

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// jsonText draws text out of what matters to the walk.
func jsonText() *rapid.Generator[string] {
	return rapid.StringOf(rapid.SampledFrom([]rune(`ab"\{}[]:, 1-`)))
}

// closing is stringEnd by looking at each byte in turn.
func closing(s string, i int) int {
	for escape := false; i < len(s); i++ {
		switch {
		case escape:
			escape = false
		case s[i] == '\\':
			escape = true
		case s[i] == '"':
			return i
		}
	}
	return len(s)
}

func TestStringsEndWhereTheyEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := jsonText().Draw(t, "text")
		i := rapid.IntRange(0, len(s)).Draw(t, "from")
		want := closing(s, i)
		if got := stringEnd(s, i); got != want {
			t.Fatalf("stringEnd(%q, %d): got %d, want %d", s, i, got, want)
		}
		end, plain := keyEnd(s, i)
		if end != want || plain == strings.Contains(s[i:want], `\`) {
			t.Fatalf("keyEnd(%q, %d): got %d, %v, want %d", s, i, end, plain, want)
		}
		if got := plainEnd(s, i); got != 0 && (s[i] != '"' || got != closing(s, i+1)+1) {
			t.Fatalf("plainEnd(%q, %d): got %d", s, i, got)
		}
	})
}

func TestValuesEndWhereTheyEnd(t *testing.T) {
	for text, want := range map[string]string{
		`"a",`: `"a"`, `"",`: `""`, `"a\"b" x`: `"a\"b"`, `"a\\",`: `"a\\"`, `"a\",`: "", `"a`: "", `"`: "",
		`1,`: "1", `-1.5e3}`: "-1.5e3", `1]`: "1", `1 ,`: "1", `12`: "", `1"`: "1", `-`: "", `-,`: "-",
		`true,`: "true", `false}`: "false", `null `: "null", `nul,`: "", `nulls,`: "", `True,`: "", `NaN,`: "", `,`: "", `}`: "", "": "",
		`{},`: `{}`, `[],`: `[]`, `{"a":[1,{"b":"}"}]},x`: `{"a":[1,{"b":"}"}]}`, `["]",1],`: `["]",1]`, `{`: "", `[[]`: "", `{"a":"}`: "",
		`["\"]"],`: `["\"]"]`, `[}`: `[}`, // not worth telling: it is damaged, and passed over whole
	} {
		end := valueEnd(text, 0)
		if got := text[:end]; got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestTheLowestEqualByteIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "bytes")
		c := rapid.OneOf(rapid.Byte(), rapid.SampledFrom(b)).Draw(t, "byte")
		got := -1
		if hit := equalBytes(word(string(b)), c); hit != 0 {
			for got = 0; hit&0xff == 0; got++ {
				hit >>= 8
			}
		}
		if want := strings.IndexByte(string(b), c); got != want {
			t.Fatalf("%x in % x: got %d, want %d", c, b, got, want)
		}
	})
}

// TestKeysInChangingOrder: what the scanner remembers of a line never shows in the next one.
func TestKeysInChangingOrder(t *testing.T) {
	s := scanner(t, "json", Mapping{Callers: callers(t, "ip=a", "key=k.x", "tenant=tenant"), Status: "status"})
	members := []string{`"time":1`, `"time" :1`, `"a":"1.2.3.4"`, `"a" : "1.2.3.4"`, `"\u0061":"1.2.3.4"`, `"k":{"x":"y"}`, `"k.x":"y"`, `"tenant":"t"`, `"ten":"no"`,
		`"tenants":"no"`, `"status":200`, `"stat":500`, `"":0`, `"` + strings.Repeat("long", 40) + `":1`}
	rapid.Check(t, func(t *rapid.T) {
		drawn := rapid.SliceOfN(rapid.SampledFrom(members), 0, 30).Draw(t, "members")
		line := []byte("{" + strings.Join(drawn, ",") + "}")
		has := func(part string) bool { return strings.Contains(string(line), part) }
		l := new(Line)
		got := s.Scan(line, l)
		if want := has(`"time`) && (has(`"1.2.3.4"`) || has(`"y"`) || has(`"t"`)); (got == OK) != want {
			t.Fatalf("%s: got %v", line, got)
		}
		if got != OK {
			return
		}
		if (l.IDs[0] != "") != has(`"1.2.3.4"`) || (l.IDs[1] != "") != has(`"y"`) || (l.IDs[2] != "") != has(`"t"`) || (l.Status == 200) != has(`"status"`) {
			t.Fatalf("%s: got %+v", line, l)
		}
	})
}

func TestWholeNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.StringMatching(`[0-9]{1,25}(\.[0-9]{1,5})?`), rapid.StringMatching(`-?[0-9]{1,3}(\.[0-9])?(e[0-9])?`)).Draw(t, "number")
		f, ok := new(big.Rat).SetString(s)
		if !ok {
			t.Fatal(s)
		}
		want := int64(0)
		if f.Sign() > 0 {
			n := new(big.Int).Quo(f.Num(), f.Denom())
			if want = math.MaxInt64; n.IsInt64() {
				want = n.Int64()
			}
		}
		// Numbers with an exponent go through a float64: exact up to 2^53.
		rounded := strings.Contains(s, "e") && want >= 1<<53
		if got := whole(s); got != want && (!rounded || math.Abs(float64(got)-float64(want)) > float64(want)/1e15) {
			t.Fatalf("%s: got %d, want %d", s, got, want)
		}
	})
	for _, s := range []string{"", "x", "true", "-5", "nan", "-inf", "inf", "+Infinity", "1x", " 1", "0x10p", "0x1p9", "1_0", "1e-9", ".", "1.2.3", "1.x", "1.5e", "99999999999999999999x"} {
		if got := whole(s); got != 0 {
			t.Errorf("%q: got %d, want 0", s, got)
		}
	}
}

// TestAFractionNeverRoundsUp: a float64 takes each of these for one more.
func TestAFractionNeverRoundsUp(t *testing.T) {
	for s, want := range map[string]int64{
		"1130000000000000.9":            1130000000000000,
		"4503599627370495.99":           1<<52 - 1,
		"9007199254740993.5":            1<<53 + 1,
		"9223372036854775806.999":       math.MaxInt64 - 1,
		"9223372036854775807.0":         math.MaxInt64,
		"9223372036854775807.9":         math.MaxInt64,
		"9223372036854775808.0":         math.MaxInt64,
		"0.99999999999999999999":        0,
		"7.":                            7,
		".75":                           0,
		"+7.9":                          7,
		"12345e-2":                      123,
		"95e-1":                         9,
		"1e400":                         math.MaxInt64,
		strings.Repeat("0", 99) + "7.9": 7,
	} {
		if got := whole(s); got != want {
			t.Errorf("%s: got %d, want %d", s, got, want)
		}
	}
}

func TestUnixTimesAreExact(t *testing.T) {
	units := map[TimeLayout]int64{TimeUnix: 1e9, TimeUnixMilli: 1e6, TimeUnixMicro: 1e3, TimeUnixNano: 1}
	rapid.Check(t, func(t *rapid.T) {
		nanos := rapid.Int64Range(0, maxSecond*second).Draw(t, "nanos")
		for layout, unit := range units {
			c := clock{layout: layout}
			// Written with all its digits, the time comes back to the nanosecond, as no float64 could.
			text := strconv.FormatInt(nanos/unit, 10)
			if unit > 1 {
				text += "." + strconv.FormatInt(unit+nanos%unit, 10)[1:]
			}
			if got, ok := c.parse(text); !ok || got != nanos {
				t.Fatalf("%v %s: got %d, %v, want %d", layout, text, got, ok, nanos)
			}
		}
	})
}
