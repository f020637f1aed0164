package audit

import (
	"context"
	"strings"
)

// Right is a verb on a resource, as a role grants it.
type Right struct {
	Verb        string
	Resource    string // qualified by its group
	Subresource string
}

// String is short, for reports.
func (r Right) String() string {
	if r.Subresource != "" {
		return r.Verb + " " + r.Resource + "/" + r.Subresource
	}
	return r.Verb + " " + r.Resource
}

// Rights are the permissions that requests used, with the number of requests that were rejected for lack of each.
type Rights struct {
	Used    map[Right]int
	Refused map[Right]int
}

// Rights returns the permissions that the matching requests after from used.
func (r *Recorder) Rights(ctx context.Context, from Position, filter Filter) (Rights, error) {
	rights := Rights{Used: map[Right]int{}, Refused: map[Right]int{}}
	id, err := r.sendMarker(ctx)
	if err != nil {
		return rights, err
	}
	_, err = r.await(ctx, from, id, func(request Request) {
		if filter.matches(request) && request.Class != Discovery {
			rights.add(request)
		}
	})
	return rights, err
}

func (r Rights) add(request Request) {
	verb, _, _ := strings.Cut(request.Verb, " ") // a dry run needs the same permission
	right := Right{verb, request.Resource, request.Subresource}
	if request.Forbidden {
		r.Refused[right]++
		return
	}
	r.Used[right]++
	if verb == "patch" && request.Code == 201 { // an apply that creates the object needs both
		right.Verb = "create"
		r.Used[right]++
	}
}
