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
		Short: "Build images that take the place of public ones, and push them to a registry",
		Long: "Build images that take the place of public ones: same names, paths, users and entry points, made from Go modules and Debian\n" +
			"packages. What was built before comes from the cache, and what the registry holds already is not pushed. Without names: all.\n" +
			"A NAME is a short one (see --list) or an image's full name.",
		RunE: func(cmd *cobra.Command, names []string) error {
			if list {
				return listStandIns(cmd.OutOrStdout(), cluster)
			}
			if len(names) == 0 {
				names = standin.Names(cluster)
			}
			var err error
			if cache, err = cacheFolder(cache); err != nil {
				return err
			}
			if hack, err = hackFolder(hack); err != nil {
				return err
			}
			return pushStandIns(cmd.Context(), names, host, ca, cache, hack)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&host, "registry", "", "address of the registry; without it, images are only built")
	flags.StringVar(&ca, "ca", "", "file of the CA that the registry's certificate is checked with (the system's by default)")
	flags.StringVar(&cache, "cache", "", "folder of what was built before (by default images in ${FETTLE_CACHE:-$HOME/.cache/fettle})")
	flags.StringVar(&hack, "hack", "", "the folder hack of the project ($FETTLE_HACK, or where this is run, or hack in it)")
	flags.BoolVar(&cluster, "cluster", false, "only those that the local cluster needs to start")
	flags.BoolVar(&list, "list", false, "list the stand-ins and the images that they stand for")
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
		if closing := builder.Close(); err == nil {
			err = closing
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
			return nil, fmt.Errorf("there is no stand-in for %s (--list shows all)", n)
		}
		recipes = append(recipes, recipe)
	}
	return recipes, nil
}

// cacheFolder is where images are kept: outside the checkout, shared by all checkouts.
func cacheFolder(given string) (string, error) {
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

// hackFolder finds the source that stand-ins are built from.
func hackFolder(given string) (string, error) {
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
	return "", fmt.Errorf("the project's folder hack is not at %q: run this in the project, or give --hack FOLDER", candidates[0])
}
