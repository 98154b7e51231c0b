package gatecaddy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	caddyserver "github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// adapt makes JSON of a Caddyfile.
func adapt(text string) (string, error) {
	out, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	return string(out), err
}

// right has each option.
const right = `{
	floodgate {
		brokers one:9092 two:9092
		brokers three:9092
		topic_prefix edge
		partition_key_file FILES/key
		tls
		tls_ca FILES/ca.pem
		tls_cert FILES/cert.pem
		tls_key FILES/key.pem
		sasl scram-sha-512
		sasl_user edge
		sasl_password_file FILES/password
		ipv6_prefix 56
		hash_kinds key user
		hash_secret_file FILES/new FILES/old
		stale open
		shadow
		responses
	}
}
:80 {
	redir /old /elsewhere
	floodgate /api/* {
		callers key=X-Api-Key user={http.auth.user.id}
		callers ip_route=ip+{path}
		reject_repeated X-Api-Key
		resource "{method} /api"
		no_record
	}
	floodgate
}
`

func TestACaddyfileBecomesJSON(t *testing.T) {
	got, err := adapt(right)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"floodgate":{"brokers":["one:9092","two:9092","three:9092"],"topic_prefix":"edge","partition_key_file":"FILES/key","tls":true,` +
			`"tls_ca":"FILES/ca.pem","tls_cert":"FILES/cert.pem","tls_key":"FILES/key.pem","sasl":"scram-sha-512","sasl_user":"edge",` +
			`"sasl_password_file":"FILES/password","ipv6_prefix":56,"hash_kinds":["key","user"],"hash_secret_file":["FILES/new","FILES/old"],` +
			`"stale":"open","shadow":true,"responses":true}`,
		`{"callers":["key=X-Api-Key","user={http.auth.user.id}","ip_route=ip+{http.request.uri.path}"],"handler":"floodgate","no_record":true,` +
			`"reject_repeated":["X-Api-Key"],"resource":"{http.request.method} /api"}`,
		`{"handler":"floodgate"}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant in it\n%s", got, want)
		}
	}
	if gates, redir := strings.Index(got, `"handler":"floodgate"`), strings.Index(got, "/elsewhere"); gates > redir {
		t.Errorf("got the gates behind redir, want them before:\n%s", got)
	}
}

func TestAWrongCaddyfileIsRefused(t *testing.T) {
	global := func(lines string) string { return "{\n\tfloodgate {\n\t\t" + lines + "\n\t}\n}\n" }
	site := func(lines string) string { return ":80 {\n\tfloodgate {\n\t\t" + lines + "\n\t}\n}\n" }
	for name, test := range map[string]struct{ text, want string }{
		"no brokers":             {"{\n\tfloodgate\n}\n", "brokers: got none, want at least one host:port, at Caddyfile:2"},
		"no value":               {global("brokers"), "brokers: got no value, want one or more, at Caddyfile:3"},
		"a broker without port":  {global("brokers one:9092 two"), `brokers: got "two", want host:port, at Caddyfile:3`},
		"an option of nobody":    {global("brokers a:1\n\t\tburst 3"), `got "burst", which is no option of floodgate here, at Caddyfile:4`},
		"a policy of nobody":     {global("stale panic\n\t\tbrokers a:1"), `stale: got "panic", want hold, open or closed, at Caddyfile:3`},
		"two values":             {global("topic_prefix a b"), `topic_prefix: got ["a" "b"], want one value, at Caddyfile:3`},
		"a prefix that is none":  {global("ipv6_prefix /64"), `ipv6_prefix: got "/64", want a number, at Caddyfile:3`},
		"a prefix too long":      {global("brokers a:1\n\t\tipv6_prefix 129"), `ipv6_prefix: `},
		"a flag with a value":    {global("shadow off"), `shadow: got "off", want nothing after it, at Caddyfile:3`},
		"kinds without a secret": {global("brokers a:1\n\t\thash_kinds key"), "hash_kinds, hash_secret_file: got one of them, want both or neither"},
		"a password in clear":    {global("brokers a:1\n\t\tsasl plain\n\t\tsasl_user u\n\t\tsasl_password_file f"), "want tls, or sasl_insecure if this is intended"},
		"twice":                  {"{\n\tfloodgate {\n\t\tbrokers a:1\n\t}\n\tfloodgate {\n\t\tbrokers b:1\n\t}\n}\n", "got the global option floodgate twice"},
		"a word behind":          {":80 {\n\tfloodgate 100/s\n}\n", `got "100/s" after floodgate, want a block or nothing, at Caddyfile:2`},
		"a caller without part":  {site("callers key="), `callers: got "key=", want kind=part or kind=part+part`},
		"an empty part":          {site("resource a\n\t\tcallers a=ip+"), `callers: got part "" of "a=ip+", want ip, net, a header or a {placeholder}, at Caddyfile:4`},
		"half a placeholder":     {site("callers a={http.x"), `callers: got part "{http.x"`},
		"a kind that is none":    {site("callers Key=X"), "callers: "},
		"too many callers":       {site("callers" + strings.Repeat(" a=X", 8)), "callers: got 8, want at most 7 beside ip, at Caddyfile:3"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := adapt(test.text); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
		})
	}
}

// What only JSON can say, or what files say.
func TestWrongJSONIsRefused(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"bad": "0011", "short": "secret"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	handler := `"http":{"servers":{"a":{"listen":["127.0.0.1:0"],"routes":[{"handle":[{"handler":"floodgate"%s}]}]}}}`
	with := func(options string) string { return strings.ReplaceAll(handler, "%s", options) }
	for name, test := range map[string]struct{ apps, want string }{
		"no app":             {with(""), "got no app floodgate, want one with brokers"},
		"an empty app":       {`"floodgate":{},` + with(""), "brokers: got none, want at least one host:port"},
		"a field of nobody":  {`"floodgate":{"broker":"a:1"}`, `unknown field "broker"`},
		"a wrong caller":     {`"floodgate":{"brokers":["127.0.0.1:1"]},` + with(`,"callers":["key"]`), `callers: got "key"`},
		"no key":             {`"floodgate":{"brokers":["127.0.0.1:1"],"partition_key_file":"` + dir + `/none"}`, "partition_key_file: open "},
		"a wrong key":        {`"floodgate":{"brokers":["127.0.0.1:1"],"partition_key_file":"` + dir + `/bad"}`, "partition_key_file: "},
		"no authorities":     {`"floodgate":{"brokers":["127.0.0.1:1"],"tls":true,"tls_ca":"` + dir + `/none"}`, "tls_ca: open "},
		"no certificate":     {`"floodgate":{"brokers":["127.0.0.1:1"],"tls":true,"tls_ca":"` + dir + `/bad"}`, "holds no certificate"},
		"a secret too short": {`"floodgate":{"brokers":["127.0.0.1:1"],"hash_kinds":["key"],"hash_secret_file":["` + dir + `/short"]}`, "hash_kinds, hash_secret_file: "},
	} {
		t.Run(name, func(t *testing.T) {
			var c caddyserver.Config
			err := caddyserver.StrictUnmarshalJSON([]byte(`{"admin":{"disabled":true},"apps":{`+test.apps+`}}`), &c)
			if err == nil {
				err = caddyserver.Validate(&c)
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
		})
	}
}

// The command that people use, on a Caddyfile, on its JSON, and on a wrong one.
func TestCaddyValidate(t *testing.T) {
	shipped, err := os.ReadFile("../../deploy/caddy/floodgate.Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("kafka:9092", "127.0.0.1:1", "/var/log/caddy", t.TempDir()).Replace(string(shipped))
	json, err := adapt(text)
	if err != nil {
		t.Fatal(err)
	}
	line := strconv.Itoa(1 + strings.Count(text[:strings.Index(text, "callers key")], "\n"))
	for _, test := range []struct {
		name, text string
		args       []string
		want       string // a regular expression
		fails      bool
	}{
		{"Caddyfile", text, []string{"--adapter", "caddyfile"}, "Valid configuration", false},
		{"caddy.json", json, nil, "Valid configuration", false},
		{"Caddyfile", strings.Replace(text, "callers key", "callers Key", 1), []string{"--adapter", "caddyfile"}, `callers: bad caller kind: got .*Key.*, at .*Caddyfile:` + line + `\b`, true},
	} {
		file := filepath.Join(t.TempDir(), test.name)
		if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := command(t, append([]string{"validate", "--config", file}, test.args...)...).CombinedOutput()
		if (err != nil) != test.fails || !regexp.MustCompile(test.want).Match(out) {
			t.Errorf("%s: got %v and\n%s\nwant %q, and that it fails: %t", test.name, err, out, test.want, test.fails)
		}
		if !test.fails && strings.Contains(string(out), "WARN") {
			t.Errorf("%s: got\n%s\nwant no warning", test.name, out)
		}
	}
}
