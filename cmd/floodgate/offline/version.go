package offline

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/version"
)

// Version prints which build this is.
func Version(p command.Process) *cobra.Command {
	var out command.Output
	cmd := &cobra.Command{
		Use:     "version [flags]",
		Short:   "print the version",
		Example: "floodgate version --output json",
		Args:    command.FlagsOnly,
		RunE: func(*cobra.Command, []string) error {
			b := version.This()
			if out.JSON {
				return printable.JSON(p.Stdout).Encode(b)
			}
			_, err := fmt.Fprintf(p.Stdout, "floodgate %s %s %s/%s\n", b.Version, b.Go, b.OS, b.Arch)
			return err
		},
	}
	out.Add(cmd)
	return cmd
}
