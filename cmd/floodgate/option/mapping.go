package option

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/schemas"
)

// Mapping are the flags for the format of a log, of all subcommands that read logs.
type Mapping struct {
	Format string
	Path   string
	IDs    IDs

	trusted Trusted
	callers []ingest.CallerTemplate // beside those that the format has: see Count
}

// Count lets the log have callers of kinds net and asn if rules count them, and if no mapping file says which callers there are. It
// returns these kinds.
func (m *Mapping) Count(set *rules.Set) (kinds []string) {
	for _, r := range set.Rules {
		known := r.Kind == schemas.KindNet || r.Kind == schemas.KindASN && m.IDs.HasASN()
		if known && m.Path == "" && !slices.Contains(kinds, r.Kind) {
			kinds = append(kinds, r.Kind)
		}
	}
	m.callers = nil
	for _, kind := range kinds {
		m.callers = append(m.callers, ingest.CallerTemplate{Kind: kind, Template: "{" + kind + "}"})
	}
	return kinds
}

// Callers returns given callers, and those that Count has found, if none given is of their kind.
func (m *Mapping) Callers(given []ingest.CallerTemplate) []ingest.CallerTemplate {
	for _, t := range m.callers {
		if !slices.ContainsFunc(given, func(g ingest.CallerTemplate) bool { return g.Kind == t.Kind }) {
			given = append(given, t)
		}
	}
	return given
}

// Add adds the flags to a subcommand.
func (m *Mapping) Add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&m.Format, "format", "", "how the log is written: "+strings.Join(ingest.Formats(), ", ")+", or nginx: or apache: and the text of a log_format (default: the mapping's, or auto)")
	flags.StringVar(&m.Path, "mapping", "", "mapping `file`: which fields are callers, and the names of the other fields")
	m.trusted.Add(flags)
	m.IDs.Add(cmd)
	m.IDs.AddASN(cmd)
}

// Trusted returns the networks of --trusted, which a mapping file must not have besides.
func (m *Mapping) Trusted() ([]netip.Prefix, error) {
	networks, err := m.trusted.Load()
	if err == nil && len(networks) > 0 && m.Path != "" {
		err = command.Usagef("--trusted: got --mapping too, want the networks in the file, as client: {trusted: [10.0.0.0/8]}")
	}
	return networks, err
}

// Load returns the format with its mapping.
func (m *Mapping) Load() (*ingest.Format, error) {
	ids, err := m.IDs.Load()
	if err != nil {
		return nil, err
	}
	trusted, err := m.Trusted()
	if err != nil {
		return nil, err
	}
	if m.Path != "" {
		if m.Format != "" && !ingest.KnownFormat(m.Format) {
			return nil, command.Usagef("--format: got %q, want one of %s", m.Format, strings.Join(ingest.Formats(), ", "))
		}
		return ingest.LoadMapping(m.Path, m.Format, ids)
	}
	f, err := ingest.NewFormat(cmp.Or(m.Format, ingest.FormatAuto), ingest.Mapping{Callers: m.Callers(nil), IDs: ids, Client: ingest.Client{Trusted: trusted}})
	if err != nil {
		return nil, command.Usage(err)
	}
	return f, nil
}
