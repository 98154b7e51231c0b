package deploy

import (
	"fmt"
	"net/netip"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/gate/bouncer"
)

// TestBouncersAskWhereTheSidecarAnswers: the files of overrides fit the commands of the page beside them, and the sidecar's defaults.
// Tests in cmd/floodgate give them to the bouncers themselves.
func TestBouncersAskWhereTheSidecarAnswers(t *testing.T) {
	page := readFile(t, "crowdsec/README.md")
	listen := regexp.MustCompile(`--bouncer-listen (\S+)`).FindStringSubmatch(page)
	if listen == nil {
		t.Fatal("got no command with --bouncer-listen in the page")
	}
	if addr, err := netip.ParseAddrPort(listen[1]); err != nil || !addr.Addr().IsLoopback() {
		t.Errorf("got --bouncer-listen %s, want it on loopback: keys cross the network in the clear", listen[1])
	}
	for _, name := range []string{"crowdsec-firewall-bouncer.yaml.local", "crowdsec-custom-bouncer.yaml.local"} {
		var file struct {
			URL       string `yaml:"api_url"`
			Key       string `yaml:"api_key"`
			Period    string `yaml:"update_frequency"`
			Retention string `yaml:"cache_retention_duration"`
		}
		if err := yaml.Unmarshal([]byte(readFile(t, "crowdsec/"+name)), &file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if u, err := url.Parse(file.URL); err != nil || u.Scheme != "http" || u.Host != listen[1] || u.Path != "/" {
			t.Errorf("%s: got api_url %q, want the sidecar at %s", name, file.URL, listen[1])
		}
		if file.Key != "REPLACE-ME" {
			t.Errorf("%s: got api_key %q, want none that somebody may use as it is", name, file.Key)
		}
		period, err := time.ParseDuration(file.Period)
		if err != nil || period > bouncer.DefaultMinClosure {
			t.Errorf("%s: got update_frequency %q, want %v at most, which closures last at least", name, file.Period, bouncer.DefaultMinClosure)
		}
		if retention, err := time.ParseDuration(file.Retention); file.Retention != "" && (err != nil || retention > period/2) {
			t.Errorf("%s: got cache_retention_duration %q, want half of %v at most: else an extended closure is deleted only", name, file.Retention, period)
		}
		if !strings.Contains(page, "]("+name+")") {
			t.Errorf("the page has no link to %s", name)
		}
	}
}

// TestTheKeyOfThePageIsOne: the commands that make a key and its line make a line that the sidecar takes.
func TestTheKeyOfThePageIsOne(t *testing.T) {
	page := readFile(t, "crowdsec/README.md")
	var commands []string
	for line := range strings.Lines(page) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "key=") || strings.HasPrefix(line, "printf 'firewall") {
			commands = append(commands, line)
		}
	}
	if len(commands) != 2 {
		t.Fatalf("got commands %q, want two", commands)
	}
	for _, program := range []string{"bash", "openssl", "sha256sum"} {
		testenv.Program(t, program)
	}
	path := t.TempDir() + "/bouncers"
	script := strings.ReplaceAll(strings.Join(commands, "\n"), "/etc/floodgate/bouncers", path) + "\nprintf %s \"$key\"\n"
	key, err := exec.CommandContext(t.Context(), "bash", "-euc", script).Output()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := bouncer.OpenKeys(path, time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := keys.Find(string(key), time.Now()); !ok || e.Name != "firewall" || len(key) != 64 {
		t.Errorf("got %s for a key of %d characters, want that of firewall", fmt.Sprint(e.Name, ok), len(key))
	}
}
