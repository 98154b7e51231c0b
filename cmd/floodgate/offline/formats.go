package offline

import (
	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
)

// Formats prints the formats of logs, with the fields that mappings can name.
func Formats(p command.Process) *cobra.Command {
	return &cobra.Command{
		Use:     "formats",
		Short:   "print the formats of logs and their fields",
		Long:    "Prints the formats of logs that ingest and replay read, and the fields of each for mappings, as Markdown.",
		Example: "floodgate formats",
		Args:    command.FlagsOnly,
		RunE:    func(*cobra.Command, []string) error { return ingest.WriteFormats(p.Stdout) },
	}
}
