package ingest

import "testing"

const (
	benchCombined = `83.149.9.216 - - [17/May/2015:10:05:03 +0000] "GET /presentations/logstash-monitorama-2013/images/kibana-search.png HTTP/1.1" 200 203023 "http://semicomplete.com/presentations/logstash-monitorama-2013/" "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_9_1) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/32.0.1700.77 Safari/537.36"`
	benchJSON     = `{"time":"2015-05-17T10:05:03.123Z","remote_addr":"83.149.9.216","method":"GET","path":"/presentations/kibana-search.png","status":200,"bytes":203023,"api_key":"k-42","referer":"http://semicomplete.com/","agent":"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_9_1)"}`
)

// benchMapping reads benchJSON.
func benchMapping() Mapping {
	return Mapping{
		Callers:  []CallerTemplate{{Kind: "ip", Template: "{remote_addr}"}},
		Resource: "path", Status: "status", Cost: "bytes",
	}
}

func benchScan(b *testing.B, format string, m Mapping, line string) {
	f, err := NewFormat(format, m)
	if err != nil {
		b.Fatal(err)
	}
	s, l, text := f.Scanner(), new(Line), []byte(line)
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if r := Scan(s, text, l); r != OK {
			b.Fatal(r)
		}
	}
}

func BenchmarkCombined(b *testing.B) { benchScan(b, "combined", Mapping{}, benchCombined) }

func BenchmarkCombinedThreeCallers(b *testing.B) {
	benchScan(b, "combined", Mapping{Callers: []CallerTemplate{
		{Kind: "agent", Template: "{agent}"}, {Kind: "ip_route", Template: "{ip}|{resource}"},
	}}, benchCombined)
}

func BenchmarkJSON(b *testing.B) { benchScan(b, "json", benchMapping(), benchJSON) }

func BenchmarkJSONNested(b *testing.B) {
	benchScan(b, "json", Mapping{Callers: []CallerTemplate{{Kind: "ip", Template: "{source.ip}"}}},
		`{"time":1431857103.123,"source":{"ip":"83.149.9.216","port":443},"message":"GET \"/\""}`)
}

func BenchmarkTime(b *testing.B) {
	var c clfClock
	for b.Loop() {
		if _, ok := c.parse("17/May/2015:10:05:03 +0000"); !ok {
			b.Fatal("bad time")
		}
	}
}
