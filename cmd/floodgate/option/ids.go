package option

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/asn"
)

// IDs are the flags for the ids of callers, of all subcommands that make or read ids.
type IDs struct {
	flags   *pflag.FlagSet
	prefix  int
	nets    []int // bits of IPv4 and of IPv6
	kinds   []string
	secrets []string // files
	asn     string   // file

	systems *asn.File    // of asn; nil before the first load, and without a file
	loaded  *schemas.IDs // nil before the first load: a file that changes does not change what runs
}

// Add adds the flags to a subcommand, under a heading.
func (f *IDs) Add(cmd *cobra.Command) {
	f.flags = cmd.Flags()
	command.Section(cmd, "Ids of callers", func(flags *pflag.FlagSet) {
		flags.IntVar(&f.prefix, "ipv6-prefix", schemas.DefaultIPv6Prefix,
			"`bits` of an IPv6 address that are one client, 1 to 128; the same in all servers, sidecars and ingests")
		flags.IntSliceVar(&f.nets, "net-prefixes", []int{schemas.DefaultNet4, schemas.DefaultNet6},
			"`bits` of an IPv4 and of an IPv6 address that are one caller of kind net; the same in all servers, analyzers, sidecars and ingests")
		flags.StringSliceVar(&f.kinds, "hash-kinds", nil,
			"`kinds` of caller, such as key, whose ids are hashed with a secret; the same in all servers, analyzers, sidecars and ingests")
		flags.StringSliceVar(&f.secrets, "hash-secret-file", nil,
			"`file` with that secret, 32 bytes or more; during a rotation two files: requests count under the first, closures and overrides hold under both")
	})
}

// AddASN adds the flag of subcommands that make ids of addresses, or look for them.
func (f *IDs) AddASN(cmd *cobra.Command) {
	command.Section(cmd, "Ids of callers", func(flags *pflag.FlagSet) {
		flags.StringVar(&f.asn, "asn-file", "",
			"`file` in MaxMind's format (.mmdb) that says which autonomous system announces an address, for callers of kind asn; read again when it changes")
	})
}

// HasASN reports whether there is --asn-file.
func (f *IDs) HasASN() bool { return f.asn != "" }

// Watch reads the file of --asn-file again when it changes, until ctx ends.
func (f *IDs) Watch(ctx context.Context, logger *slog.Logger) {
	if f.systems != nil {
		f.systems.Watch(ctx, logger)
	}
}

// Load returns the ids that the flags describe, and reads the secrets once. Without --ipv6-prefix the prefix is 0: a
// mapping file may then set it.
func (f *IDs) Load() (schemas.IDs, error) {
	if f.loaded != nil {
		return *f.loaded, nil
	}
	ids := schemas.IDs{IPv6Prefix: f.prefix}
	if f.prefix == 0 {
		return ids, command.Usagef("--ipv6-prefix: got 0, want 1 to 128")
	}
	if err := ids.Validate(); err != nil {
		return ids, command.Usagef("--ipv6-prefix: %w", err)
	}
	if !f.flags.Changed("ipv6-prefix") {
		ids.IPv6Prefix = 0
	}
	if len(f.nets) != 2 {
		return ids, command.Usagef("--net-prefixes: got %d numbers, want two, such as %d,%d", len(f.nets), schemas.DefaultNet4, schemas.DefaultNet6)
	}
	ids.Net4, ids.Net6 = f.nets[0], f.nets[1]
	if err := ids.Validate(); err != nil || f.nets[0] == 0 || f.nets[1] == 0 {
		return ids, command.Usagef("--net-prefixes: got %d,%d, want 8 to 24 bits of IPv4, and 16 to 64 of IPv6", f.nets[0], f.nets[1])
	}
	if f.asn != "" {
		var err error
		if f.systems, err = asn.Open(f.asn); err != nil {
			return ids, command.Usagef("--asn-file: %w", err)
		}
		ids.ASN = f.systems.ID
	}
	if (len(f.kinds) == 0) != (len(f.secrets) == 0) {
		return ids, command.Usagef("--hash-kinds, --hash-secret-file: got one of them, want both or neither")
	}
	if len(f.kinds) > 0 {
		secrets, err := readSecrets(f.secrets)
		if err != nil {
			return ids, err
		}
		if ids.Hash, err = schemas.NewIDHasher(f.kinds, secrets...); err != nil {
			return ids, command.Usagef("--hash-kinds, --hash-secret-file: %w", err)
		}
	}
	f.loaded = &ids
	return ids, nil
}

// readSecrets returns the contents of the files, without a line end at their end. No error contains them.
func readSecrets(paths []string) (secrets [][]byte, err error) {
	for _, path := range paths {
		secret, err := readSecret(path)
		if err != nil {
			return nil, fmt.Errorf("read the secret for ids: %w", err)
		}
		secrets = append(secrets, secret)
	}
	return secrets, nil
}

func readSecret(path string) (secret []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	secret, err = io.ReadAll(io.LimitReader(file, schemas.MaxIDSecret+2)) // and a line end
	return bytes.TrimRight(secret, "\r\n"), err
}

// Rules returns the rules in the file at path, with overrides for ids as the flags make them.
func (f *IDs) Rules(path string) (*rules.Set, error) {
	ids, err := f.Load()
	if err != nil {
		return nil, err
	}
	return rules.LoadWith(path, ids)
}

// Callers returns the callers that a text kind:id may mean: the one that is shown so, and the one that counts a client that
// sends this id. For "" it returns none.
func (f *IDs) Callers(text string) ([]string, error) {
	ids, err := f.Load()
	if err != nil || text == "" {
		return nil, err
	}
	kind, id, _ := strings.Cut(text, ":")
	list := []string{text, ids.Caller(schemas.Caller{Kind: kind, ID: id}).String()}
	for _, form := range ids.Overridden(kind, id) {
		list = append(list, kind+":"+form)
	}
	return list, nil
}
