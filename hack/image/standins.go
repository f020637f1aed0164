package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/fettle-dev/fettle/hack/image/registry"
	"github.com/fettle-dev/fettle/hack/image/standin"
)

func standInsCommand() *cobra.Command {
	var host, ca, cache, hack string
	var cluster, list bool
	cmd := &cobra.Command{
		Use:   "stand-ins [NAME...]",
		Short: "Build replacements of public images and push them to a registry",
		Long: "Build stand-in images, which replace public images: they have the same names, paths, users and entrypoints, and are built from\n" +
			"Go modules and Debian packages. Cached images are not rebuilt, and images in the registry are not pushed again.\n" +
			"NAME is a short name (see --list) or a full image name. Without NAME, all images are built.",
		RunE: func(cmd *cobra.Command, names []string) error {
			if list {
				return listStandIns(cmd.OutOrStdout(), cluster)
			}
			if len(names) == 0 {
				names = standin.Names(cluster)
			}
			var err error
			if cache, err = cacheDir(cache); err != nil {
				return err
			}
			if hack, err = hackDir(hack); err != nil {
				return err
			}
			return pushStandIns(cmd.Context(), names, host, ca, cache, hack)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&host, "registry", "", "address of the registry; empty builds the images without a push")
	flags.StringVar(&ca, "ca", "", "CA file for the registry's certificate (default: the system's CAs)")
	flags.StringVar(&cache, "cache", "", "cache directory (default: ${FETTLE_CACHE:-$HOME/.cache/fettle}/images)")
	flags.StringVar(&hack, "hack", "", "directory hack/ of the repository (default: $FETTLE_HACK, . or ./hack)")
	flags.BoolVar(&cluster, "cluster", false, "only the images that the local cluster needs")
	flags.BoolVar(&list, "list", false, "list the stand-in images and the image names that they replace")
	return cmd
}

func listStandIns(out io.Writer, cluster bool) error {
	for _, n := range standin.Names(cluster) {
		recipe, _ := standin.Find(n)
		for _, image := range recipe.Images {
			if _, err := fmt.Fprintf(out, "%-20s %s\n", n, image); err != nil {
				return err
			}
		}
	}
	return nil
}

func pushStandIns(ctx context.Context, names []string, host, ca, cache, hack string) (err error) {
	recipes, err := findRecipes(names)
	if err != nil {
		return err
	}
	var client *registry.Client
	if host != "" {
		if client, err = registry.NewClient(host, ca); err != nil {
			return err
		}
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
	for _, recipe := range recipes {
		image, err := builder.Image(ctx, recipe.Name)
		if err != nil {
			return err
		}
		if client == nil {
			continue
		}
		sent, err := client.Push(ctx, image, recipe.Images...)
		if err != nil {
			return err
		}
		if sent {
			fmt.Fprintf(os.Stderr, "stand-ins: %s: pushed as %s\n", recipe.Name, recipe.Images[0])
		}
	}
	return nil
}

func findRecipes(names []string) ([]*standin.Recipe, error) {
	recipes := make([]*standin.Recipe, 0, len(names))
	for _, n := range names {
		recipe, ok := standin.Find(n)
		if !ok {
			return nil, fmt.Errorf("no stand-in for %s (see --list)", n)
		}
		recipes = append(recipes, recipe)
	}
	return recipes, nil
}

// cacheDir returns the cache directory, which all checkouts share.
func cacheDir(given string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	if root := os.Getenv("FETTLE_CACHE"); root != "" {
		return filepath.Join(root, "images"), nil
	}
	root, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, "fettle", "images"), nil
}

// hackDir returns the directory hack/, which has the sources of the stand-in images.
func hackDir(given string) (string, error) {
	if given == "" {
		given = os.Getenv("FETTLE_HACK")
	}
	candidates := []string{given}
	if given == "" {
		candidates = []string{".", "hack"}
	}
	for _, dir := range candidates {
		if _, err := os.Stat(filepath.Join(dir, "tools", "bin")); err == nil {
			return filepath.Abs(dir)
		}
	}
	return "", fmt.Errorf("%q is not the directory hack/: run the command in the repository, or pass --hack DIR", candidates[0])
}
