package analyzer

import (
	"bytes"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
)

// Rules can be noted whatever the machine and the file are called, and however long the file is.
func TestANoteCanAlwaysBeWritten(t *testing.T) {
	short := mustRules(t, threeAMinute)
	long := mustRules(t, "# "+strings.Repeat("x", schemas.MaxControlText)+threeAMinute)
	for _, c := range []struct {
		name, file, wantAuthor, wantReason string
		set                                *rules.Set
	}{
		{"", "", "an analyzer", "rules", short},
		{"host/1", "r.yaml", "host/1", "r.yaml", long},
		{"h\xff/1", "r\xfe.yaml", "h?/1", "r?.yaml", short},
		{strings.Repeat("ü", 300), "/" + strings.Repeat("ü", 300), strings.Repeat("ü", 128), "/" + strings.Repeat("ü", 255), short},
	} {
		r := newNote(c.set, c.file)
		r.Time, r.Author = 1, (&OwnerConfig{Name: c.name}).author()
		value, err := pb.AppendControl(nil, &r)
		if err != nil {
			t.Fatalf("%.20q, %.20q: %v", c.name, c.file, err)
		}
		back, err := pb.DecodeControl(value)
		if err != nil || back.Author != c.wantAuthor || back.Reason != c.wantReason || back.RulesID != c.set.ID() {
			t.Errorf("%.20q, %.20q: got %.80v, %v, want author %.20q and reason %.20q", c.name, c.file, back, err, c.wantAuthor, c.wantReason)
		}
		if c.set == short && !bytes.Equal(back.Text, short.Text()) || c.set == long && back.Text != nil {
			t.Errorf("%.20q, %.20q: got a text of %d bytes, of %d", c.name, c.file, len(back.Text), len(c.set.Text()))
		}
	}
}

// What analyzers write into Kafka has the hash of an id whose kind is secret.
func TestNoSecretIdIsNoted(t *testing.T) {
	hasher, err := schemas.NewIDHasher([]string{"key"}, bytes.Repeat([]byte("s"), 32))
	if err != nil {
		t.Fatal(err)
	}
	text := "version: 1\nrules: [{name: a, callers: key, limit: 5, window: 1m, overrides: {sk-live-4711: 9}}] # sk-live-4711\n"
	set, err := rules.ParseWith("rules", []byte(text), schemas.IDs{Hash: hasher})
	if err != nil {
		t.Fatal(err)
	}
	note := newNote(set, "rules.yaml")
	if bytes.Contains(note.Text, []byte("4711")) {
		t.Fatalf("got %s", note.Text)
	}
	if again, err := rules.Parse("noted", note.Text); err != nil || again.ID() != note.RulesID {
		t.Errorf("got %v, want a text that gives the id without the secret", err)
	}
}
