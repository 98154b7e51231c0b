package deploy

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// stage is one FROM of a Dockerfile, with what it takes over from the stage that it is from.
type stage struct {
	from  string
	runs  []string // commands of RUN, without its mounts
	env   []string
	copy  [][]string // arguments of COPY --from=build: options, source, destination
	user  string
	entry string
}

// parseDockerfile returns the stages by name. It reads what deploy/Dockerfile uses and refuses the rest, so that nothing
// is left out of the test unseen.
func parseDockerfile(text string) (map[string]*stage, error) {
	stages, now := map[string]*stage{}, &stage{}
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		fields := strings.Fields(rest)
		switch word {
		case "FROM":
			if len(fields) != 3 {
				return nil, fmt.Errorf("got FROM %q, want IMAGE AS NAME", rest)
			}
			now = &stage{from: fields[0]}
			if parent := stages[fields[0]]; parent != nil {
				now = &stage{
					from: parent.from, env: append([]string(nil), parent.env...), user: parent.user,
					copy: append([][]string(nil), parent.copy...),
				}
			}
			stages[fields[2]] = now
		case "RUN":
			for len(fields) > 0 && strings.HasPrefix(fields[0], "--mount=") {
				fields = fields[1:]
			}
			now.runs = append(now.runs, strings.Join(fields, " "))
		case "COPY":
			if strings.HasPrefix(rest, "--from=build ") {
				now.copy = append(now.copy, fields[1:])
			}
		case "ENV":
			now.env = append(now.env, rest)
		case "ARG":
			now.env = append(now.env, rest)
		case "USER":
			now.user = rest
		case "ENTRYPOINT":
			now.entry = strings.Trim(rest, `[]"`)
		case "", "#", "WORKDIR", "EXPOSE", "VOLUME", "STOPSIGNAL", "CMD":
		default:
			if !strings.HasPrefix(word, "#") {
				return nil, fmt.Errorf("got instruction %q, which this test does not know", word)
			}
		}
	}
	return stages, nil
}

func dockerfile(t *testing.T) map[string]*stage {
	t.Helper()
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	stages, err := parseDockerfile(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return stages
}

// TestDockerfile looks at what the images are made of.
func TestDockerfile(t *testing.T) {
	stages := dockerfile(t)
	for _, name := range []string{"floodgate", "example"} {
		s := stages[name]
		if s == nil {
			t.Fatalf("got no stage %s", name)
		}
		if s.from != "scratch" {
			t.Errorf("%s: got base %q, want scratch: nothing but our files", name, s.from)
		}
		if len(s.runs) > 0 {
			t.Errorf("%s: got RUN %q, want none: there is no shell in the image", name, s.runs)
		}
		if uid, _, _ := strings.Cut(s.user, ":"); uid == "" || uid == "0" || strings.Trim(uid, "0123456789") != "" {
			t.Errorf("%s: got user %q, want a number other than 0, which Kubernetes can see is not root", name, s.user)
		}
	}
	goMod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	_, want, _ := strings.Cut(string(goMod), "\ngo ")
	want, _, _ = strings.Cut(want, "\n")
	want = strings.TrimSuffix(want, ".0")
	if image := stages["build"].from; !strings.HasPrefix(image, "golang:"+want+".") {
		t.Errorf("got build image %q, want a golang:%s.N as go.mod says", image, want)
	}
}

func TestParseDockerfileRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, text := range []string{"FROM golang:1.26\n", "FROM scratch AS a\nONBUILD RUN x\n", "HEALTHCHECK CMD x\n"} {
		if _, err := parseDockerfile(text); err == nil {
			t.Errorf("got no error for %q", text)
		}
	}
}
