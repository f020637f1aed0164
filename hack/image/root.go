package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/fettle-dev/fettle/hack/image/standin"
)

// rootCommand writes the files of a stand-in, to run something in them without a cluster.
func rootCommand() *cobra.Command {
	var cache, hack string
	cmd := &cobra.Command{
		Use:   "root NAME FOLDER",
		Short: "Write the files of a stand-in into a folder that is empty or not there yet",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			recipe, ok := standin.Find(args[0])
			if !ok {
				return fmt.Errorf("there is no stand-in for %s (image stand-ins --list shows all)", args[0])
			}
			if cache, err = cacheFolder(cache); err != nil {
				return err
			}
			if hack, err = hackFolder(hack); err != nil {
				return err
			}
			if entries, err := os.ReadDir(args[1]); err == nil && len(entries) > 0 {
				return fmt.Errorf("folder %s is not empty", args[1])
			}
			builder, err := standin.New(hack, cache, os.Stderr)
			if err != nil {
				return err
			}
			defer func() {
				if closing := builder.Close(); err == nil {
					err = closing
				}
			}()
			return builder.Extract(cmd.Context(), recipe.Name, args[1])
		},
	}
	cmd.Flags().StringVar(&cache, "cache", "", "folder of what was built before (by default images in ${FETTLE_CACHE:-$HOME/.cache/fettle})")
	cmd.Flags().StringVar(&hack, "hack", "", "the folder hack of the project ($FETTLE_HACK, or where this is run, or hack in it)")
	return cmd
}
