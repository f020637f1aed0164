package network

import (
	"bufio"
	"context"
	"fmt"
	"strings"
)

// comment marks the host's rules that are the cluster's own.
const comment = "fettle-cluster"

// rule is an iptables rule: the table, the chain, and the rest of the command.
type rule struct {
	table, chain string
	spec         []string
}

// hostRules let nodes and pods reach beyond the machine, also where the host's policy is not to forward.
func hostRules() []rule {
	mark := []string{"-m", "comment", "--comment", comment}
	return []rule{
		{"filter", "FORWARD", append([]string{"-i", Bridge}, append(mark, "-j", "ACCEPT")...)},
		{"filter", "FORWARD", append([]string{"-o", Bridge}, append(mark, "-j", "ACCEPT")...)},
		{"nat", "POSTROUTING", append([]string{"-s", NodeRange, "!", "-o", Bridge}, append(mark, "-j", "MASQUERADE")...)},
	}
}

// nodeRules give pods the node's address towards everything but other pods, which see the pod's own address.
func nodeRules() []rule {
	return []rule{{"nat", "POSTROUTING", []string{
		"-s", PodRange, "!", "-d", PodRange, "-m", "comment", "--comment", comment, "-j", "MASQUERADE",
	}}}
}

func ensureRules(ctx context.Context, netns string, rules []rule) error {
	for _, r := range rules {
		do := func(verb string) error {
			args := append([]string{"-w", "5", "-t", r.table, verb, r.chain}, r.spec...)
			_, err := run(ctx, netns, "", "iptables", args...)
			return err
		}
		if do("-C") == nil {
			continue
		}
		if err := do("-I"); err != nil {
			return err
		}
	}
	return nil
}

// removeRules removes the cluster's own rules and those of kube-proxy from the host.
func removeRules(ctx context.Context) error {
	for _, family := range []string{"iptables", "ip6tables"} {
		saved, err := run(ctx, "", "", family+"-save")
		if err != nil {
			continue // not installed, or the kernel lacks it: then there are no rules either
		}
		if input := removal(saved); input != "" {
			if _, err := run(ctx, "", input, family+"-restore", "--noflush", "-w", "5"); err != nil {
				return fmt.Errorf("remove the cluster's %s rules: %w", family, err)
			}
		}
	}
	return nil
}

// removal turns the output of iptables-save into the input of iptables-restore --noflush that removes kube-proxy's
// chains (KUBE-*), all rules that jump to them, and the cluster's own rules. It is empty when there is nothing to
// remove. Everything else is left as it is.
func removal(saved string) string {
	var out strings.Builder
	var table string
	var deletes, flushes, drops []string
	for scanner := bufio.NewScanner(strings.NewReader(saved)); scanner.Scan(); {
		line := scanner.Text()
		switch {
		case strings.HasPrefix(line, "*"):
			table, deletes, flushes, drops = line, nil, nil, nil
		case strings.HasPrefix(line, ":KUBE-"):
			chain, _, _ := strings.Cut(line[1:], " ")
			flushes, drops = append(flushes, "-F "+chain), append(drops, "-X "+chain)
		case strings.HasPrefix(line, "-A ") && !strings.HasPrefix(line, "-A KUBE-") && isOurs(line):
			deletes = append(deletes, "-D"+strings.TrimPrefix(line, "-A"))
		case line == "COMMIT" && len(deletes)+len(flushes) > 0:
			fmt.Fprintln(&out, table)
			for _, l := range append(append(deletes, flushes...), drops...) {
				fmt.Fprintln(&out, l)
			}
			fmt.Fprintln(&out, "COMMIT")
		}
	}
	return out.String()
}

func isOurs(line string) bool {
	return strings.Contains(line, "-j KUBE-") || strings.Contains(line, "--comment "+comment)
}
