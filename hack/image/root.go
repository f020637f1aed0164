package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/fettle-dev/fettle/hack/image/standin"
)

// rootCommand extracts the files of a stand-in image, to run programs in them without a cluster.
func rootCommand() *cobra.Command {
	var cache, hack string
	cmd := &cobra.Command{
		Use:   "root NAME DIR",
		Short: "Extract the files of a stand-in image to a new or empty directory",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			recipe, ok := standin.Find(args[0])
			if !ok {
				return fmt.Errorf("no stand-in for %s (see image stand-ins --list)", args[0])
			}
			if cache, err = cacheDir(cache); err != nil {
				return err
			}
			if hack, err = hackDir(hack); err != nil {
				return err
			}
			if entries, err := os.ReadDir(args[1]); err == nil && len(entries) > 0 {
				return fmt.Errorf("directory %s is not empty", args[1])
			}
			builder, err := standin.New(hack, cache, os.Stderr)
			if err != nil {
				return err
			}
			defer func() {
				if closeErr := builder.Close(); err == nil {
					err = closeErr
				}
			}()
			return builder.Extract(cmd.Context(), recipe.Name, args[1])
		},
	}
	cmd.Flags().StringVar(&cache, "cache", "", "cache directory (default: ${FETTLE_CACHE:-$HOME/.cache/fettle}/images)")
	cmd.Flags().StringVar(&hack, "hack", "", "directory hack/ of the repository (default: $FETTLE_HACK, . or ./hack)")
	return cmd
}
