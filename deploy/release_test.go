package deploy

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// unitFile returns the values of each setting of a systemd unit, in their order.
func unitFile(t *testing.T, name string) map[string][]string {
	t.Helper()
	settings := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^(\w+)=(.*)$`).FindAllStringSubmatch(readFile(t, name), -1) {
		settings[m[1]] = append(settings[m[1]], m[2])
	}
	return settings
}

// TestUnitsAreHardenedAlike: what one unit cannot do, no other can. They differ in what they read, write and wait for.
func TestUnitsAreHardenedAlike(t *testing.T) {
	own := []string{
		"Description", "Documentation", "Wants", "After", "StartLimitIntervalSec", "ExecStart", "ExecReload", "Environment", "EnvironmentFile",
		"LoadCredential", "RestartSec", "RestartPreventExitStatus", "TimeoutStopSec", "MemoryMax", "UMask",
		"DynamicUser", "User", "Group", "SupplementaryGroups", "PrivateUsers", // a unit with the group adm needs the users of the host
		"StateDirectory", "StateDirectoryMode", "RuntimeDirectory", "RuntimeDirectoryMode",
	}
	files, err := filepath.Glob("systemd/*.service")
	if err != nil || len(files) < 5 {
		t.Fatalf("got units %q (%v), want 5 or more", files, err)
	}
	common := func(name string) map[string][]string {
		settings := unitFile(t, name)
		maps.DeleteFunc(settings, func(key string, _ []string) bool { return slices.Contains(own, key) })
		return settings
	}
	want := common(files[0])
	if len(want) < 25 {
		t.Fatalf("%s: got %d settings that units share, want 25 or more", files[0], len(want))
	}
	for _, name := range files[1:] {
		if got := common(name); !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s: got\n%v\nwant, as in %s,\n%v", name, got, files[0], want)
		}
	}
	for _, name := range files {
		settings := unitFile(t, name)
		if !slices.Equal(settings["DynamicUser"], []string{"yes"}) && settings["User"] == nil {
			t.Errorf("%s: got neither DynamicUser=yes nor a User, want one", name)
		}
		file := strings.TrimPrefix(settings["EnvironmentFile"][0], "%E/floodgate/")
		if _, err := os.Stat("systemd/floodgate-" + file); err != nil && file != "floodgate.env" {
			t.Errorf("%s: EnvironmentFile: %v", name, err)
		}
	}
}

// release is what the test wants to know of .goreleaser.yaml.
type release struct {
	Nfpms []struct {
		Bindir    string
		Contents  []struct{ Src, Dst, Type string }
		Overrides map[string]struct{ Scripts map[string]string }
	}
}

func readRelease(t *testing.T) release {
	t.Helper()
	var r release
	if err := yaml.Unmarshal([]byte(readFile(t, "../.goreleaser.yaml")), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Nfpms) != 1 {
		t.Fatalf("got %+v, want one kind of packages", r)
	}
	return r
}

// TestPackagesHoldWhatTheUnitNames: the unit, the user, the program, the settings and the data have the same names in all files that a
// package is made of.
func TestPackagesHoldWhatTheUnitNames(t *testing.T) {
	unit, p := unitFile(t, "systemd/floodgate-serve.service"), readRelease(t).Nfpms[0]
	files := map[string]string{}
	for _, c := range p.Contents {
		files[c.Dst] = c.Src
		if text := readFile(t, filepath.Join("..", c.Src)); text == "" {
			t.Errorf("%s: got an empty file", c.Src)
		}
		if strings.HasPrefix(c.Dst, "/etc/") && c.Type != "config|noreplace" {
			t.Errorf("%s: got type %q, want config|noreplace: an upgrade keeps what the admin has written", c.Dst, c.Type)
		}
	}
	if got, want := unit["ExecStart"][0], p.Bindir+"/floodgate serve"; got != want {
		t.Errorf("got ExecStart=%s, want %s", got, want)
	}
	if got := files["/usr/lib/systemd/system/floodgate-serve.service"]; got != "deploy/systemd/floodgate-serve.service" {
		t.Errorf("got %q as the package's unit", got)
	}
	settings := strings.Replace(unit["EnvironmentFile"][0], "%E", "/etc", 1)
	if got := files[settings]; got != "deploy/systemd/floodgate-serve.env" {
		t.Errorf("got %q as %s, want the settings that the unit reads", got, settings)
	}
	data := "/var/lib/" + unit["StateDirectory"][0]
	if users := readFile(t, filepath.Join("..", files["/usr/lib/sysusers.d/floodgate.conf"])); !strings.Contains(users, "\nu "+unit["User"][0]+" - \"floodgate\" "+data+"\n") {
		t.Errorf("got\n%s\nwant the unit's user %s, at home in %s", users, unit["User"][0], data)
	}
	if got, want := unit["Environment"][0], "FLOODGATE_DATA=%S/"+unit["StateDirectory"][0]; got != want {
		t.Errorf("got Environment=%s, want %s", got, want)
	}
	for format, words := range map[string][]string{"deb": {"rm -rf " + data + "\n", "userdel " + unit["User"][0] + " ", settings}, "rpm": {settings}} {
		text := ""
		for _, script := range p.Overrides[format].Scripts {
			text += readFile(t, filepath.Join("..", script))
		}
		for _, word := range append(words, "floodgate-serve.service", "systemd-sysusers floodgate.conf") {
			if !strings.Contains(text, word) {
				t.Errorf("%s: got scripts without %q, want what the unit names", format, word)
			}
		}
	}
}

// TestTheWalkFitsThePackage: the commands of INSTALL.md, which deploy/release/walk.sh runs, name what the package has, and are five at most.
func TestTheWalkFitsThePackage(t *testing.T) {
	_, section, _ := strings.Cut(readFile(t, "INSTALL.md"), "\n## From the package to the first refused request\n")
	_, block, _ := strings.Cut(section, "```sh\n")
	block, _, _ = strings.Cut(block, "```")
	if n := strings.Count(strings.ReplaceAll(block, "\\\n", ""), "\n"); n < 3 || n > 5 {
		t.Errorf("got %d commands\n%s\nwant five at most", n, block)
	}
	included := ""
	for _, c := range readRelease(t).Nfpms[0].Contents {
		if c.Src == "cmd/floodgate/daemon/nginx.conf" {
			included = c.Dst
		}
	}
	lines, settings := readFile(t, "../cmd/floodgate/daemon/nginx.conf"), readFile(t, "systemd/floodgate-serve.env")
	if included == "" || !strings.Contains(lines, "\n#   include "+included+";\n") {
		t.Errorf("got nginx.conf with another place than that of the package, %q", included)
	}
	for name, pattern := range map[string]string{"the log": `(?m)^FLOODGATE_FILE=(.*)$`, "the address": `(?m)^FLOODGATE_LISTEN=(.*)$`} {
		value := regexp.MustCompile(pattern).FindStringSubmatch(settings)
		if value == nil || name == "the log" && !strings.Contains(block, " --file "+value[1]+" ") || name == "the address" && !strings.Contains(lines, "http://"+value[1]+"/auth_request;") {
			t.Errorf("got settings with %q as %s, want what the walk and nginx.conf have", value, name)
		}
	}
	data := "/var/lib/" + unitFile(t, "systemd/floodgate-serve.service")["StateDirectory"][0]
	for _, want := range []string{"include " + included + ";", "serve --check ", " --data " + data + "\n", " " + data + "/rules.yaml\n"} {
		if !strings.Contains(block, want) {
			t.Errorf("got no %q in\n%s", want, block)
		}
	}
}
