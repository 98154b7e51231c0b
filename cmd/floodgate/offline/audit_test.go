package offline

import (
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/audit"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/store"
)

func TestVerdictsOfAudits(t *testing.T) {
	for name, c := range map[string]struct {
		r    audit.Report
		want string
	}{
		"nothing counted": {audit.Report{}, ""},
		"agreed":          {audit.Report{Agreed: 3}, ""},
		"partly":          {audit.Report{Agreed: 3, Unaudited: make([]audit.Difference, 2)}, ""},
		"not at all":      {audit.Report{Unaudited: make([]audit.Difference, 2)}, "nothing could be compared"},
		"differs":         {audit.Report{Agreed: 3, Differences: make([]audit.Difference, 2)}, "2 rows"},
		"damaged":         {audit.Report{Agreed: 3, Damage: store.ErrDigest}, "not those that were committed"},
	} {
		sum := sumAudit([]audit.Report{c.r})
		err := sum.verdict()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// A script reads "exact" as a person reads "to the unit": neither is said where a part of the store could not be compared.
func TestAnAuditOfAPartOfTheStoreIsNotExact(t *testing.T) {
	for want, r := range map[string]audit.Report{
		"to the unit":                    {Agreed: 3},
		"as far back as the log reaches": {Agreed: 3, Unaudited: make([]audit.Difference, 2)},
		"reaches":                        {Agreed: 3, Partly: true},
	} {
		var out strings.Builder
		sum := sumAudit([]audit.Report{r})
		if err := renderAudit(command.Process{Stdout: &out}, []audit.Report{r}, sum, 0); err != nil || sum.verdict() != nil {
			t.Fatalf("got %v and %v, want no error", err, sum.verdict())
		}
		if !strings.HasSuffix(out.String(), want+"\n") || sum.Exact != (want == "to the unit") {
			t.Errorf("got exact %v and\n%s\nwant %s", sum.Exact, out.String(), want)
		}
	}
}

func TestAuditSaysWhatWasNeverCounted(t *testing.T) {
	var out strings.Builder
	r := audit.Report{Agreed: 1, Log: fold.Stats{Rules: []fold.RuleStats{{Rule: "r", Uncounted: 9, Recovered: 2}}, Rejected: map[string]uint64{"crc": 2, "misplaced": 1}}}
	sum := sumAudit([]audit.Report{r})
	if err := renderAudit(command.Process{Stdout: &out}, []audit.Report{r}, sum, 0); err != nil || sum.verdict() != nil {
		t.Fatalf("got %v and %v, want no error", err, sum.verdict())
	}
	if want := "3 records or entries that were refused, and a weight of 7"; !strings.Contains(out.String(), want) {
		t.Errorf("got\n%s\nwant %q in it", out.String(), want)
	}
	if err := encodeAudit(command.Process{Stdout: &out}, []audit.Report{r}, sum); err != nil || !strings.Contains(out.String(), `"uncounted":7`) {
		t.Errorf("JSON: got %v,\n%s\nwant the weight that was not counted", err, out.String())
	}
}

// A partition key of one's own, given after a trial without one, makes all earlier records those of strangers.
func TestAuditNamesAnotherPartitionKey(t *testing.T) {
	for rejected, want := range map[string]string{fold.ReasonKey: "7 of the refused records are under another partition key than this audit has: see --partition-key-file\n", "crc": ""} {
		var out strings.Builder
		r := audit.Report{Agreed: 1, Log: fold.Stats{Rejected: map[string]uint64{rejected: 7}}}
		if err := renderAudit(command.Process{Stdout: &out}, []audit.Report{r}, sumAudit([]audit.Report{r}), 0); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "another partition key") != (want != "") {
			t.Errorf("%s: got\n%s\nwant %q", rejected, out.String(), want)
		}
	}
}

// Nothing that was not read agrees with anything: an audit beside the analyzer that runs must not say so.
func TestAuditOfNoPartitionSaysSo(t *testing.T) {
	var out strings.Builder
	sum := sumAudit(nil)
	sum.fail([]failedAudit{{0, store.ErrLocked}, {1, store.ErrLocked}})
	if err := renderAudit(command.Process{Stdout: &out}, nil, sum, 0); err != nil {
		t.Fatal(err)
	}
	if want := "0 partitions, 0 requests, 0 rows: NO PARTITION COULD BE AUDITED\n"; !strings.HasSuffix(out.String(), want) || strings.Contains(out.String(), "AGREE") {
		t.Errorf("got\n%s\nwant %q at its end", out.String(), want)
	}
}

func TestLongTablesAreCut(t *testing.T) {
	var out strings.Builder
	r := audit.Report{Differences: make([]audit.Difference, 9), Damage: store.ErrDigest}
	if err := renderAudit(command.Process{Stdout: &out}, []audit.Report{r}, sumAudit([]audit.Report{r}), 4); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"4 of 9 rows", "THE STORE DIFFERS FROM THE LOG", store.ErrDigest.Error()} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%s\nwant %q in it", out.String(), want)
		}
	}
}
