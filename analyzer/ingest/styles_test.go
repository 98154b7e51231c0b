package ingest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryStyleIsComplete: a format is one entry of styles, and a log with what is read of it. There is no log without a format.
func TestEveryStyleIsComplete(t *testing.T) {
	ranks := make(map[int]string)
	want := map[string]bool{}
	for _, s := range styles() {
		if s.name == "" || s.name == FormatAuto || s.make == nil {
			t.Errorf("%+v: want a name and a decoder", s)
			continue
		}
		if other, taken := ranks[s.rank]; taken && s.rank != 0 {
			t.Errorf("%s and %s have the rank %d", s.name, other, s.rank)
		}
		ranks[s.rank] = s.name
		if s.json && s.header {
			t.Errorf("%s: lines of JSON name their fields themselves", s.name)
		}
		if s.native == (s.defaults.Time != "") {
			t.Errorf("%s: native %t, and the time is in %q", s.name, s.native, s.defaults.Time)
		}
		if s.name != "json" { // the members of plain JSON have any names
			if s.defaults.Client.Address == "" && s.defaults.Client.Forwarded == "" || s.defaults.Resource == "" {
				t.Errorf("%s: want the fields of the client and the path", s.name)
			}
		}
		if found, ok := styleOf(s.name); !ok || found.name != s.name {
			t.Errorf("%s: got the style %q", s.name, found.name)
		}
		want[s.name+".log"], want[s.name+".want"] = true, true
	}
	files, err := os.ReadDir(goldenLogs)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !want[f.Name()] && f.Name() != "README.md" && f.Name() != "TABLE.md" && f.Name() != "real" {
			t.Errorf("%s: there is no such format", f.Name())
		}
		delete(want, f.Name())
	}
	for name := range want {
		t.Errorf("%s is missing", filepath.Join(goldenLogs, name))
	}
}

// TestEachNameOfEachFormatIsRead: what a format calls a field, in all the ways it does, is where the mapping finds it.
func TestEachNameOfEachFormatIsRead(t *testing.T) {
	for _, s := range styles() {
		if !s.json || s.defaults.Status == "" {
			continue // its fields have no names of their own
		}
		fields := map[string]string{
			"address": s.defaults.Client.Address, "time": s.defaults.Time, "resource": s.defaults.Resource, "status": s.defaults.Status, "cost": s.defaults.Cost,
			"method": s.defaults.Method,
		}
		values := map[string]string{
			"address": `"192.0.2.7"`, "time": `"2015-05-17T10:05:03Z"`, "resource": `"/a?b"`, "status": `404`, "cost": `17`, "method": `"GET"`,
		}
		for what, names := range fields {
			for name := range strings.SplitSeq(names, "|") {
				var members []string
				for other, alternatives := range fields {
					key, _, _ := strings.Cut(alternatives, "|")
					if other == what {
						key = name
					}
					members = append(members, fmt.Sprintf("%q:%s", key, values[other]))
				}
				f, err := NewFormat(s.name, Mapping{})
				if err != nil {
					t.Fatal(err)
				}
				l, line := roomy(), "{"+strings.Join(members, ",")+"}"
				if got := Scan(f.Scanner(), []byte(line), l); got != OK || l.IDs[0] != "192.0.2.7" ||
					l.Time != at(t, "2015-05-17T10:05:03Z") || l.Resource != "GET /a" || l.Status != 404 || l.Cost != 17 {
					t.Errorf("%s: %s: got %v, %+v", s.name, line, got, l)
				}
			}
		}
	}
}

// TestEachColumnIsWhereItsNameSays, in the formats whose lines do not name them.
func TestEachColumnIsWhereItsNameSays(t *testing.T) {
	for _, c := range []struct {
		format string
		line   string
		want   map[string]string
	}{
		{"envoy_text", `[2016-04-15T20:17:00.310Z] "POST /api/v1?x HTTP/2" 204 UF 154 15 226 100 "10.0.35.28" "nsq2http" "cc21d9b0" "locations" "tcp://10.0.2.1:80"`, map[string]string{
			"request":               "POST /api/v1?x HTTP/2",
			"method":                "POST",
			"target":                "/api/v1?x",
			"path":                  "/api/v1?x",
			"response_code":         "204",
			"response_flags":        "UF",
			"bytes_received":        "154",
			"bytes_sent":            "15",
			"duration":              "226",
			"upstream_service_time": "100",
			"user_agent":            "nsq2http",
			"request_id":            "cc21d9b0",
			"authority":             "locations",
			"upstream_host":         "tcp://10.0.2.1:80",
		}},
		{"alb", `h2 2018-07-02T22:23:00.186641Z app/lb/5 10.0.1.252:48160 10.0.0.66:9000 0.1 0.2 0.3 200 201 5 257 "GET https://10.0.2.105:773/ HTTP/2.0" "curl/7 \"x\"" C TLSv1.2 arn:x "Root=1" "dom" "cert" 1 2018-07-02T22:22:48.364000Z "redirect" "https://e:80/" "err" "10.0.0.66:9000" "200" "cl" "why" TID_1 `, map[string]string{
			"type":                     "h2",
			"elb":                      "app/lb/5",
			"target:port":              "10.0.0.66:9000",
			"request_processing_time":  "0.1",
			"target_processing_time":   "0.2",
			"response_processing_time": "0.3",
			"elb_status_code":          "200",
			"target_status_code":       "201",
			"received_bytes":           "5",
			"sent_bytes":               "257",
			"method":                   "GET",
			"target":                   "https://10.0.2.105:773/",
			"user_agent":               `curl/7 \"x\"`,
			"ssl_cipher":               "C",
			"ssl_protocol":             "TLSv1.2",
			"target_group_arn":         "arn:x",
			"trace_id":                 "Root=1",
			"domain_name":              "dom",
			"chosen_cert_arn":          "cert",
			"matched_rule_priority":    "1",
			"request_creation_time":    "2018-07-02T22:22:48.364000Z",
			"actions_executed":         "redirect",
			"redirect_url":             "https://e:80/",
			"error_reason":             "err",
			"target:port_list":         "10.0.0.66:9000",
			"target_status_code_list":  "200",
			"classification":           "cl",
			"classification_reason":    "why",
			"conn_trace_id":            "TID_1",
		}},
		{"combined", `192.0.2.1 - bob ` + clfTime + ` "PUT /a?b HTTP/1.1" 200 17 "http://r/" "curl/8"`, map[string]string{
			"user":            "bob",
			"remote_user":     "bob",
			"method":          "PUT",
			"request_method":  "PUT",
			"target":          "/a?b",
			"request_uri":     "/a?b",
			"referer":         "http://r/",
			"http_referer":    "http://r/",
			"agent":           "curl/8",
			"http_user_agent": "curl/8",
		}},
	} {
		for field, want := range c.want {
			s, l := scanner(t, c.format, Mapping{Callers: callers(t, "key="+field)}), roomy()
			if got := Scan(s, []byte(c.line), l); got != OK || l.IDs[1] != want {
				t.Errorf("%s: %s: got %v, %q, want %q", c.format, field, got, l.IDs, want)
			}
		}
	}
}

// TestAutoTriesOnlyWhatTheMappingFits: fields that only some formats have rule the others out.
func TestAutoTriesOnlyWhatTheMappingFits(t *testing.T) {
	for name, c := range map[string]struct {
		m     Mapping
		line  string
		found string
	}{
		"a field of ALB":      {Mapping{Callers: callers(t, "arn=target_group_arn"), OnlyCallers: true}, benchCombined, ""},
		"any field of JSON":   {Mapping{Callers: callers(t, "key=api_key"), OnlyCallers: true}, `{"time":1,"api_key":"k"}`, "traefik"}, // the first that has a time so called,
		"a path in JSON":      {Mapping{Callers: callers(t, "key=user.name"), OnlyCallers: true}, `{"ts":1,"user":{"name":"k"}}`, "caddy"},
		"a user in combined":  {Mapping{Callers: callers(t, "user=user"), OnlyCallers: true}, `1.2.3.4 - bob ` + clfTime + ` "GET / HTTP/1.1" 200 1`, "combined"},
		"the default for all": {Mapping{}, benchCombined, "combined"},
		"a time of its own":   {Mapping{Callers: callers(t, "key=k"), OnlyCallers: true, Time: "when"}, `when=1 k=v`, "logfmt"},
	} {
		f, err := NewFormat(FormatAuto, c.m)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		s := f.Scanner()
		got := Scan(s, []byte(c.line), roomy())
		if found := s.(*auto).name; found != c.found || (got == OK) != (c.found != "") {
			t.Errorf("%s: got %v by %q, want %q", name, got, found, c.found)
		}
	}
}

// TestHeadedFormats need their first line wherever they are read from.
func TestHeadedFormats(t *testing.T) {
	for name, want := range map[string]bool{
		"auto": true, "csv": true, "tsv": true, "combined": false, "common": false, "envoy_text": false, "alb": false,
		"nginx": false, "envoy": false, "traefik": false, "caddy": false, "ecs": false, "logfmt": false,
	} {
		f, err := NewFormat(name, Mapping{})
		if err != nil || f.Headed() != want || !f.Responses() {
			t.Errorf("%s: got %v, headed %v, responses %v", name, err, f.Headed(), f.Responses())
		}
		f, err = NewFormat(name, Mapping{NoResponses: true})
		if err != nil || f.Responses() {
			t.Errorf("%s: got %v, responses %v without them", name, err, f.Responses())
		}
	}
}
