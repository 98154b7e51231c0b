package ingest

import (
	"strings"
	"testing"
)

// checkFields checks what a format reads of each field of a line.
func checkFields(t *testing.T, format, line string, want map[string]string) {
	t.Helper()
	for field, text := range want {
		s, l := scanner(t, format, Mapping{Callers: callers(t, "key="+field)}), roomy()
		if got := Scan(s, []byte(line), l); got != OK || len(l.IDs) < 2 || l.IDs[1] != text {
			t.Errorf("%.60s: %s: got %v, %q, want %q", format, field, got, l.IDs, text)
		}
	}
}

func TestFieldsOfHAProxy(t *testing.T) {
	checkFields(t, "haproxy", `10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in~ static/srv1 10/0/30/69/+109 200 +2750 - - ---- 1/2/3/4/0 0/7 {1wt.eu|x} {} "GET /index.html?a HTTP/1.1"`,
		map[string]string{
			"accept_date": "06/Feb/2009:12:14:14.655",
			"frontend":    "http-in~",
			"backend":     "static",
			"server":      "srv1",
			"tr":          "10",
			"tw":          "0",
			"tc":          "30",
			"tresp":       "69",
			"ta":          "+109",
			"status":      "200",
			"bytes_read":  "+2750",
			"captured":    "- - ---- 1/2/3/4/0 0/7 {1wt.eu|x} {} ",
			"request":     "GET /index.html?a HTTP/1.1",
			"method":      "GET",
			"target":      "/index.html?a",
		})
	checkFields(t, "haproxy_tcp", `10.0.1.2:33313 [06/Feb/2009:12:12:51.443] fnt bck/<NOSRV> 0/1/5007 212 -- 5/4/3/2/1 6/7`,
		map[string]string{
			"accept_date":       "06/Feb/2009:12:12:51.443",
			"frontend":          "fnt",
			"backend":           "bck",
			"server":            "<NOSRV>",
			"tw":                "0",
			"tc":                "1",
			"tt":                "5007",
			"bytes_read":        "212",
			"termination_state": "--",
			"actconn":           "5",
			"feconn":            "4",
			"beconn":            "3",
			"srv_conn":          "2",
			"retries":           "1",
			"srv_queue":         "6",
			"backend_queue":     "7",
		})
}

func TestFieldsOfIstio(t *testing.T) {
	checkFields(t, "istio_text", `[2020-11-25T21:26:18.409Z] "GET /status/418?a HTTP/1.1" 418 UF via_upstream gone "why not" 1 135 4 3 "203.0.113.7" "curl/7" "84961386" "httpbin:8000" `+
		`"10.44.1.27:80" outbound|8000||h 10.44.1.23:37652 10.0.45.184:8000 10.44.1.23:46520 sni.example default`,
		map[string]string{
			"start_time":                        "2020-11-25T21:26:18.409Z",
			"request":                           "GET /status/418?a HTTP/1.1",
			"method":                            "GET",
			"target":                            "/status/418?a",
			"response_code":                     "418",
			"response_flags":                    "UF",
			"response_code_details":             "via_upstream",
			"connection_termination_details":    "gone",
			"upstream_transport_failure_reason": "why not",
			"bytes_received":                    "1",
			"bytes_sent":                        "135",
			"duration":                          "4",
			"upstream_service_time":             "3",
			"x_forwarded_for":                   "203.0.113.7",
			"user_agent":                        "curl/7",
			"request_id":                        "84961386",
			"authority":                         "httpbin:8000",
			"upstream_host":                     "10.44.1.27:80",
			"upstream_cluster":                  "outbound|8000||h",
			"upstream_local_address":            "10.44.1.23:37652",
			"downstream_local_address":          "10.0.45.184:8000",
			"requested_server_name":             "sni.example default",
		})
}

func TestFieldsOfAWS(t *testing.T) {
	checkFields(t, "s3", `owner bucket1 [06/Feb/2019:00:00:38 +0000] 192.0.2.3 arn:aws:iam::1:user/x 3E57 REST.GET.OBJECT a/b.png "GET /bucket1/a/b.png?x HTTP/1.1" 404 NoSuchKey 113 - 7 3 "http://r/" "S3Console/0.4" - host`,
		map[string]string{
			"bucket_owner":     "owner",
			"bucket":           "bucket1",
			"time":             "06/Feb/2019:00:00:38 +0000",
			"requester":        "arn:aws:iam::1:user/x",
			"request_id":       "3E57",
			"operation":        "REST.GET.OBJECT",
			"key":              "a/b.png ",
			"request_uri":      "GET /bucket1/a/b.png?x HTTP/1.1",
			"http_status":      "404",
			"error_code":       "NoSuchKey",
			"bytes_sent":       "113",
			"total_time":       "7",
			"turn_around_time": "3",
			"referer":          "http://r/",
			"user_agent":       "S3Console/0.4",
			"method":           "GET",
			"target":           "/bucket1/a/b.png?x",
		})
	checkFields(t, "elb", `2015-05-13T23:39:43.945958Z my-lb 192.168.131.39:2817 10.0.0.1:80 0.1 0.2 0.3 200 201 5 57 "GET https://www.example.com:443/ HTTP/1.1" "curl/7 \"x\"" C TLSv1.2`,
		map[string]string{
			"time":                     "2015-05-13T23:39:43.945958Z",
			"elb":                      "my-lb",
			"backend:port":             "10.0.0.1:80",
			"request_processing_time":  "0.1",
			"backend_processing_time":  "0.2",
			"response_processing_time": "0.3",
			"elb_status_code":          "200",
			"backend_status_code":      "201",
			"received_bytes":           "5",
			"sent_bytes":               "57",
			"request":                  "GET https://www.example.com:443/ HTTP/1.1",
			"user_agent":               `curl/7 \"x\"`,
			"ssl_cipher":               "C",
		})
}

func TestFieldsOfSquidAndLighttpd(t *testing.T) {
	checkFields(t, "squid", `1066036250.603    310 192.0.2.40 TCP_MISS/200 1234 GET http://www.example.com/a?x frank DIRECT/192.0.2.80 image/gif`,
		map[string]string{
			"time":          "1066036250.603",
			"elapsed":       "310",
			"code":          "TCP_MISS",
			"status":        "200",
			"bytes":         "1234",
			"method":        "GET",
			"url":           "http://www.example.com/a?x",
			"user_and_peer": "frank DIRECT/192.0.2.80 image/gif",
		})
	checkFields(t, "lighttpd", `127.0.0.1 www.example.com frank `+clfTime+` "GET /a HTTP/1.1" 200 17 "http://r/" "curl/8"`,
		map[string]string{
			"vhost":      "www.example.com",
			"user":       "frank",
			"status":     "200",
			"bytes":      "17",
			"referer":    "http://r/",
			"user_agent": "curl/8",
			"method":     "GET",
		})
}

// TestFieldsOfNginx: each variable by its name, known or not.
func TestFieldsOfNginx(t *testing.T) {
	values := map[string]string{
		"status":                   "200",
		"body_bytes_sent":          "17",
		"bytes_sent":               "217",
		"request_time":             "0.012",
		"request_length":           "99",
		"msec":                     "1431857103.123",
		"pid":                      "7",
		"connection":               "11",
		"connection_requests":      "3",
		"remote_port":              "4711",
		"server_port":              "443",
		"request_method":           "GET",
		"scheme":                   "https",
		"host":                     "h.example",
		"server_protocol":          "HTTP/2.0",
		"request_id":               "0af7651916cd43dd8448eb211c80319c",
		"ssl_protocol":             "TLSv1.3",
		"ssl_cipher":               "TLS_AES_256_GCM_SHA384",
		"upstream_cache_status":    "MISS",
		"limit_req_status":         "PASSED",
		"server_addr":              "10.0.0.1",
		"upstream_addr":            "10.0.0.2:80, 10.0.0.3:80",
		"upstream_response_time":   "0.001, 0.002",
		"upstream_status":          "502, 200",
		"http_user_agent":          `a \x22b`,
		"http_x_api_key":           "k-42",
		"geoip2_data_country_code": "NL",
		"cookie_session":           "s",
		"uri":                      "/a b",
		"args":                     "x=1",
	}
	for variable, value := range values {
		for name, c := range map[string]struct{ layout, line string }{
			"in quotes":    {`$remote_addr [$time_local] "$` + variable + `" x`, peer + " " + clfTime + ` "` + value + `" x`},
			"with braces":  {`$remote_addr [$time_local] "a=${` + variable + `}" x`, peer + " " + clfTime + ` "a=` + value + `" x`},
			"at the end":   {`$remote_addr [$time_local] $` + variable, peer + " " + clfTime + ` ` + value},
			"at the start": {`$` + variable + ` [$time_local] "$remote_addr"`, value + ` ` + clfTime + ` "` + peer + `"`},
			"between bars": {`$remote_addr|[$time_local]|$` + variable + `|`, peer + "|" + clfTime + "|" + value + "|"},
		} {
			s, l := scanner(t, "nginx:"+c.layout, Mapping{Callers: callers(t, "key="+variable)}), roomy()
			if got := Scan(s, []byte(c.line), l); got != OK || l.IDs[0] != peer || l.IDs[1] != value {
				t.Errorf("%s %s: %s: got %v, %q, want %q", variable, name, c.line, got, l.IDs, value)
			}
		}
	}
}

// TestFieldsOfApache: each directive by the name that the page of formats says.
func TestFieldsOfApache(t *testing.T) {
	for directive, want := range map[string]struct{ field, value string }{
		"%l":                {"ident", "x"},
		"%u":                {"user", "a b"},
		"%>s":               {"status", "200"},
		"%s":                {"status", "200"},
		"%b":                {"bytes", "17"},
		"%B":                {"bytes", "17"},
		"%O":                {"sent", "217"},
		"%I":                {"received", "99"},
		"%S":                {"transferred", "316"},
		"%D":                {"duration_us", "1234"},
		"%T":                {"duration", "1"},
		"%{ms}T":            {"duration", "12"},
		"%p":                {"port", "443"},
		"%P":                {"pid", "77"},
		"%k":                {"keepalive", "3"},
		"%m":                {"method", "GET"},
		"%H":                {"protocol", "HTTP/1.1"},
		"%v":                {"vhost", "www.example.com"},
		"%V":                {"server", "www.example.com"},
		"%U":                {"path", "/a b"},
		"%q":                {"query", "?a=b"},
		"%f":                {"file", "/srv/a b"},
		"%R":                {"handler", "proxy-server"},
		"%X":                {"connection", "+"},
		"%L":                {"log_id", "abc"},
		"%{Referer}i":       {"in_referer", "http://r/"},
		"%{X-Key}o":         {"out_x-key", "v w"},
		"%{sid}C":           {"cookie_sid", "s"},
		"%{UNIQUE_ID}e":     {"env_UNIQUE_ID", "u"},
		"%{ratio}n":         {"note_ratio", "10"},
		"%400,501{Agent}i":  {"in_agent", "x"},
		"%!200,304{Agent}i": {"in_agent", "x"},
		"%{usec}t":          {"time_usec", "1431857103000000"},
		"%A":                {"local_addr", "10.0.0.1"},
	} {
		s, l := scanner(t, `apache:%h %t "`+directive+`" x`, Mapping{Callers: callers(t, "key="+want.field)}), roomy()
		line := peer + " " + clfTime + ` "` + want.value + `" x`
		if got := Scan(s, []byte(line), l); got != OK || l.IDs[0] != peer || l.IDs[1] != want.value {
			t.Errorf("%s: %s: got %v, %q, want %q", directive, line, got, l.IDs, want.value)
		}
	}
}

// TestTextsOfConfigurations: the very text that stands there, however it is quoted.
func TestTextsOfConfigurations(t *testing.T) {
	for text, want := range map[string][2]string{
		`$remote_addr "$request"`:                                           {`$remote_addr "$request"`, ""},
		`log_format main '$remote_addr "$request"';`:                        {`$remote_addr "$request"`, ""},
		"log_format main '$remote_addr '\n    '\"$request\"';":              {`$remote_addr "$request"`, ""},
		"log_format  main  escape=json  '$remote_addr '\n\t'\"$request\"';": {`$remote_addr "$request"`, "json"},
		`log_format main "$remote_addr \"$request\"";`:                      {`$remote_addr "$request"`, ""},
		`escape=default '$remote_addr'`:                                     {`$remote_addr`, "default"},
		`escape=json $remote_addr`:                                          {`$remote_addr`, "json"},
		`'$remote_addr' ' - ' '$status'`:                                    {`$remote_addr - $status`, ""},
		`"$remote_addr" "$request"`:                                         {`"$remote_addr" "$request"`, ""},
		"":                                                                  {"", ""},
	} {
		if got, escape := nginxText(text); got != want[0] || escape != want[1] {
			t.Errorf("%s: got %q, %q, want %q", text, got, escape, want)
		}
	}
	for text, want := range map[string]string{
		`%h "%r"`:                          `%h "%r"`,
		`LogFormat "%h \"%r\"" common`:     `%h "%r"`,
		`LogFormat "%h \"%r\""`:            `%h "%r"`,
		`%h \"%r\"`:                        `%h "%r"`,
		`  LogFormat  "%h" x  `:            `%h`,
		`LogFormat %h`:                     `%h`,
		`LogFormat`:                        ``,
		`%h\t%r`:                           "%h\t%r",
		`LogFormat "%h \"%{A}i\" \\" nick`: `%h "%{A}i" \`,
	} {
		if got := apacheLine(text); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// TestLayoutsThatCannotBeCompiled say what is wrong.
func TestLayoutsThatCannotBeCompiled(t *testing.T) {
	for format, want := range map[string]string{
		"nginx:":                                 "no field",
		"nginx:no variable":                      "no field",
		"nginx:$":                                `a "$"`,
		"nginx:$remote_addr $-":                  `a "$"`,
		"nginx:${remote_addr":                    `a "$"`,
		"nginx:escape=none $remote_addr":         "escape=none",
		"nginx:log_format x escape=none '$host'": "escape=none",
		"nginx:{}":                               "want members",
		"apache:":                                "no field",
		"apache:%":                               `a "%"`,
		"apache:%h %{Referer":                    `a "%"`,
		"apache:%h %>":                           `a "%"`,
		"nginx:[$time_local] $status":            "no callers",
		`nginx:$remote_addr "$request" $status`:  "no time", // each request would be one of 1970
		`nginx:{"ip":"$remote_addr"}`:            "no time",
		`apache:%h "%r" %>s`:                     "no time",
		"nginx:" + strings.Repeat("$a ", maxColumns+1): "more than",
	} {
		_, err := NewFormat(format, Mapping{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v, want %s", format, err, want)
		}
	}
	_, err := NewFormat(`nginx:$remote_addr [$time_local] $scheme://$host$request_uri`, Mapping{Callers: callers(t, "h=host")})
	if err == nil || !strings.Contains(err.Error(), "nothing between") {
		t.Errorf("got %v for a field that cannot be told from its neighbour", err)
	}
}
