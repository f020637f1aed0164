package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
)

var (
	platformKind   = platformv1.GroupVersion.WithKind("EcommercePlatform")
	stackKind      = platformv1.GroupVersion.WithKind("AppStack")
	webAppKind     = appsv1.GroupVersion.WithKind("WebApp")
	postgreSQLKind = databasev1alpha1.GroupVersion.WithKind("PostgreSQL")
	statefulSet    = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}
)

const (
	// store is the EcommercePlatform of the specs. Its database has the name storeDB.
	store   = "staging-store"
	storeDB = store + "-db"
	// A platform is Ready within this part of the time of its longest chain of components, and a constant for the last status.
	chainRatio, chainSlack = 1.2, 2 * time.Second
	// deletionLimit is how long the deletion of a platform may take.
	deletionLimit = time.Minute
	// A client pauses orderPause between two orders, and places at most maxOrders.
	orderPause = 50 * time.Millisecond
	maxOrders  = 2000
)

func shopImage() string { return cmp.Or(os.Getenv("SHOP_IMG"), "ghcr.io/fettle-dev/shop:test") }

// shopSpecs run the shop of test/e2e/shop.
func shopSpecs() {
	BeforeEach(func() {
		if !local {
			Skip("the images of the shop and of the object stores exist only on the local cluster (`make up`)")
		}
	})
	Describe("in an EcommercePlatform", Ordered, platformSpecs)
	It("stores its orders in MariaDB", func(ctx SpecContext) {
		ns := newNamespace(ctx, restricted)
		begun := time.Now()
		ns.apply(ctx, fmt.Sprintf(`
apiVersion: platform.fettle.dev/v1
kind: AppStack
metadata: {name: shop}
spec:
  deletionPolicy: Delete
  components:
  - {name: db, mySQL: {type: MariaDB, storage: 256Mi}}
  - {name: cache, cache: {memory: 32Mi}}
  - {name: backend, webApp: {image: %q, %s}}
`, shopImage(), shopPart("backend")))
		ns.becomesReady(ctx, stackKind, "shop")
		report(fmt.Sprintf("AppStack with MariaDB Ready after %.1f s", time.Since(begun).Seconds()))
		backend := ns.shopURL(ctx, "shop-backend")
		placed := placeOrder(ctx, backend, "first")
		Expect(placeOrder(ctx, backend, "first")).To(Equal(placed), "a repeated request has another answer")
		found := getOrders(ctx, backend, "first")
		Expect(found.Count).To(Equal(1))
		Expect(found.Orders).To(ConsistOf(placed))
	}, SpecTimeout(5*time.Minute))
}

func platformSpecs() {
	var ns, stores namespaced
	var placed []shopOrder // before the ledger

	BeforeAll(func(ctx SpecContext) {
		ns, stores = newNamespace(ctx, restricted), newNamespace(ctx, restricted)
	})

	// kept holds that the database has all orders, and no other.
	kept := func(ctx context.Context, all []shopOrder) {
		GinkgoHelper()
		backend := ns.shopURL(ctx, store+"-backend")
		found := map[string]shopOrder{}
		count := 0
		for some := range slices.Chunk(all, 100) {
			var keys []string
			for _, o := range some {
				keys = append(keys, o.Key)
			}
			page := getOrders(ctx, backend, keys...)
			count = page.Count
			for _, o := range page.Orders {
				found[o.Key] = o
			}
		}
		var lost []string
		for _, o := range all {
			if found[o.Key] != o {
				lost = append(lost, fmt.Sprintf("%+v became %+v", o, found[o.Key]))
			}
		}
		Expect(lost).To(BeEmpty(), "acknowledged orders were lost or changed")
		Expect(count).To(Equal(len(all)), "orders are there twice, or ones that the client did not place")
	}

	It("is Ready as fast as its longest chain of components, and labels everything", func(ctx SpecContext) {
		before := ns.unlabelled(ctx)
		begun := time.Now()
		ns.apply(ctx, storeManifest("staging", "{storage: 256Mi}"))
		seen := ns.timesToReady(ctx, map[string]schema.GroupVersionKind{
			store: platformKind, storeDB: postgreSQLKind, store + "-backend": webAppKind, store + "-frontend": webAppKind,
		})
		chain := time.Duration(0)
		parts := ""
		for _, name := range []string{storeDB, store + "-backend", store + "-frontend"} {
			took := seen[name].ready.Sub(seen[name].created)
			chain += took
			parts += fmt.Sprintf(", %s %.1f s", name, took.Seconds())
		}
		total := seen[store].ready.Sub(begun)
		report(fmt.Sprintf("EcommercePlatform Ready after %.1f s; its longest chain took %.1f s%s: ratio %.2f", total.Seconds(), chain.Seconds(), parts, total.Seconds()/chain.Seconds()))
		Expect(total).To(BeNumerically("<=", time.Duration(float64(chain)*chainRatio)+chainSlack))

		shown := ns.run(ctx, "get", "all", "-l", "platform="+store)
		for _, name := range []string{"pod/" + storeDB + "-0", "pod/" + storeDB + "-1", "service/" + storeDB, "deployment.apps/" + store + "-backend",
			"deployment.apps/" + store + "-frontend", "statefulset.apps/" + storeDB, "statefulset.apps/" + store + "-cache"} {
			Expect(shown).To(ContainSubstring(name))
		}
		Expect(ns.run(ctx, "get", "pvc", "-l", "platform="+store, "-o", "name")).To(Equal("persistentvolumeclaim/data-" + storeDB + "-0\npersistentvolumeclaim/data-" + storeDB + "-1\n"))
		Expect(ns.unlabelled(ctx)).To(Equal(before), "objects without the label")
	}, SpecTimeout(5*time.Minute))

	It("takes orders on its page", func(ctx SpecContext) {
		page := ns.shopURL(ctx, store+"-frontend")
		placed, _ = buy(ctx, page, placed)
		var body string
		placed, body = buy(ctx, page, placed)
		last := placed[len(placed)-1]
		want := fmt.Sprintf(`<b id="confirmed">%d</b>`, last.ID)
		Expect(body).To(And(ContainSubstring(want), ContainSubstring("Your orders"), ContainSubstring(`<b id="count">2</b>`)))
		kept(ctx, placed)
		if dom := browse(ctx, page+"/?order="+last.Key); dom != "" {
			Expect(dom).To(ContainSubstring(want))
		}
	}, SpecTimeout(3*time.Minute))

	It("becomes a production platform in place", func(ctx SpecContext) {
		stores.startStores(ctx, s3Store)
		ns.useStore(ctx, stores, s3Store)
		begun := time.Now()
		ns.apply(ctx, productionManifest(stores))
		ns.becomesReady(ctx, platformKind, store)
		report(fmt.Sprintf("from staging to production in %.1f s", time.Since(begun).Seconds()))
		pg := ns.databaseReady(ctx, storeDB)
		Expect(pg.Status.ReadyInstances).To(BeEquivalentTo(3))
		Expect(ns.run(ctx, "exec", pg.Status.Primary, "--", "psql", "-qtAX", "-d", "postgres", "-c",
			"select count(*) from pg_stat_replication where sync_state in ('sync', 'quorum')")).NotTo(Equal("0\n"), "replication is not synchronous")
		policies := ns.run(ctx, "get", "networkpolicies", "-l", "platform="+store, "-o", "name")
		for _, part := range []string{"db", "cache", "backend", "frontend"} {
			Expect(policies).To(ContainSubstring("networkpolicy.networking.k8s.io/" + store + "-" + part + "\n"))
		}
		kept(ctx, placed)
	}, SpecTimeout(5*time.Minute))

	It("loses no order and stores none twice when the primary's pod is killed", func(ctx SpecContext) {
		primary := ns.recovered(ctx, storeDB).Status.Primary
		l := startLedger(ctx, ns.shopURL(ctx, store+"-backend"))
		defer l.end()
		Eventually(ctx, func() int { return len(l.acknowledged()) }).WithTimeout(soon).Should(BeNumerically(">=", 20))
		killed := time.Now()
		ns.run(ctx, "delete", "pod", primary, "--grace-period=1", "--wait=false")
		pg := ns.recovered(ctx, storeDB)
		ns.becomesReady(ctx, platformKind, store)
		acknowledged := len(l.acknowledged())
		Eventually(ctx, func() int { return len(l.acknowledged()) }).WithTimeout(soon).Should(BeNumerically(">=", acknowledged+20))
		l.end()
		Expect(l.changed).To(BeEmpty(), "a repeated request has another answer")
		report(fmt.Sprintf("failover from %s to %s: %d orders acknowledged, at most %.1f s for one, %d requests without an answer; Ready again after %.1f s",
			primary, pg.Status.Primary, len(l.acknowledged()), l.slowest.Seconds(), l.failed, time.Since(killed).Seconds()))
		placed = append(placed, l.acknowledged()...)
		kept(ctx, placed)
	}, SpecTimeout(5*time.Minute))

	It("is deleted in order, and keeps its data", func(ctx SpecContext) {
		begun := time.Now()
		ns.run(ctx, "delete", "ecommerceplatform", store, "--wait=false")
		ends := ns.timesToGone(ctx, begun, []named{
			{postgreSQLKind, storeDB}, {statefulSet, store + "-cache"}, {webAppKind, store + "-backend"}, {webAppKind, store + "-frontend"}, {stackKind, store},
		})
		report(fmt.Sprintf("deletion in seconds since the request: frontend %s, backend %s, cache %s, database %s, all %s",
			ends[store+"-frontend"], ends[store+"-backend"], ends[store+"-cache"], ends[storeDB], ends[store]))
		Expect(ends[store+"-backend"].begun).To(BeNumerically(">=", ends[store+"-frontend"].gone), "the backend was deleted before the frontend was gone")
		for _, name := range []string{store + "-cache", storeDB} {
			Expect(ends[name].begun).To(BeNumerically(">=", ends[store+"-backend"].gone), "%s was deleted before the backend was gone", name)
		}
		Expect(ends[store].gone).To(BeNumerically("<", deletionLimit))
		Expect(ns.run(ctx, "get", "all", "-l", "platform="+store)).To(ContainSubstring("No resources found"))
		ns.run(ctx, "get", "pvc", "data-"+storeDB+"-0", "data-"+storeDB+"-1", "data-"+storeDB+"-2")
		ns.run(ctx, "get", "secret", storeDB+"-credentials")

		begun = time.Now()
		ns.apply(ctx, productionManifest(stores))
		ns.becomesReady(ctx, platformKind, store)
		report(fmt.Sprintf("re-created with its data in %.1f s", time.Since(begun).Seconds()))
		kept(ctx, placed)
	}, SpecTimeout(5*time.Minute))
}

// storeManifest is the platform; database is YAML in one line.
func storeManifest(environment, database string) string {
	return fmt.Sprintf(`
apiVersion: platform.fettle.dev/v1
kind: EcommercePlatform
metadata: {name: %s}
spec:
  environment: %s
  frontend: {image: %[3]q, webApp: {%[4]s}}
  backend: {image: %[3]q, webApp: {%[5]s}}
  database: %[6]s
  cache: {memory: 32Mi}
`, store, environment, shopImage(), shopPart("frontend"), shopPart("backend"), database)
}

func productionManifest(stores namespaced) string {
	GinkgoHelper()
	return storeManifest("production", "{storage: 256Mi, backup: {destination: "+inline(s3Store.destination(stores))+"}}")
}

// shopPart are the fields of the WebApp of a part of the shop, besides image.
func shopPart(part string) string {
	return fmt.Sprintf("args: [%s], port: 8080, imagePullPolicy: Always, probes: {readiness: {path: /healthz, periodSeconds: 1, timeoutSeconds: 5}}", part)
}

// unlabelled lists the objects of the namespace without the platform's label, besides the platform.
func (n namespaced) unlabelled(ctx context.Context) []string {
	GinkgoHelper()
	output := n.run(ctx, "get", fettleKinds+","+otherKinds+",appstacks.platform.fettle.dev,secrets,serviceaccounts,roles,rolebindings,networkpolicies",
		"-l", "platform!="+store, "-o", "name")
	return slices.DeleteFunc(strings.Fields(output), func(name string) bool { return strings.HasPrefix(name, "ecommerceplatform.") })
}

// readyTimes are when an object was seen first, and when it was Ready.
type readyTimes struct{ created, ready time.Time }

// timesToReady waits until all objects have been Ready at their current generation.
func (n namespaced) timesToReady(ctx context.Context, objects map[string]schema.GroupVersionKind) map[string]readyTimes {
	GinkgoHelper()
	seen := map[string]readyTimes{}
	Eventually(ctx, func(ctx context.Context) ([]string, error) {
		var waiting []string
		for name, kind := range objects {
			state, err := n.state(kind, name, "Ready")(ctx)
			if client.IgnoreNotFound(err) != nil {
				return nil, err
			}
			times := seen[name]
			if err == nil && times.created.IsZero() {
				times.created = time.Now()
			}
			if times.ready.IsZero() && strings.HasPrefix(state, "True ") {
				times.ready = time.Now()
			}
			seen[name] = times
			if times.ready.IsZero() {
				waiting = append(waiting, fmt.Sprintf("%s: %s", name, cmp.Or(state, "missing")))
			}
		}
		return waiting, nil
	}).WithPolling(200 * time.Millisecond).WithTimeout(later).Should(BeEmpty())
	return seen
}

// goneTimes are when the deletion of an object was seen first, and when the object was gone, since the request.
type goneTimes struct{ begun, gone time.Duration }

func (t goneTimes) String() string {
	return fmt.Sprintf("%.1f to %.1f", t.begun.Seconds(), t.gone.Seconds())
}

// named is an object of a kind.
type named struct {
	kind schema.GroupVersionKind
	name string
}

// timesToGone waits until all objects are gone. The objects are in the reverse order of their deletion: if the deletion of one is seen, a
// look at the next one comes later.
func (n namespaced) timesToGone(ctx context.Context, since time.Time, objects []named) map[string]goneTimes {
	GinkgoHelper()
	seen := map[string]goneTimes{}
	Eventually(ctx, func(ctx context.Context) ([]string, error) {
		var left []string
		now := time.Since(since)
		for _, o := range objects {
			times := seen[o.name]
			if times.gone > 0 {
				continue
			}
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(o.kind)
			err := k8s.Get(ctx, client.ObjectKey{Namespace: n.name, Name: o.name}, u)
			if client.IgnoreNotFound(err) != nil {
				return nil, err
			}
			if times.begun == 0 && (err != nil || u.GetDeletionTimestamp() != nil) {
				times.begun = now
			}
			if apierrors.IsNotFound(err) {
				times.gone = now
			} else {
				left = append(left, o.name)
			}
			seen[o.name] = times
		}
		return left, nil
	}).WithPolling(50 * time.Millisecond).WithTimeout(later).Should(BeEmpty())
	return seen
}

// shopOrder is an order, as the shop's backend answers.
type shopOrder struct {
	ID       int64  `json:"id"`
	Key      string `json:"key"`
	Product  string `json:"product"`
	Quantity int    `json:"quantity"`
	Cents    int64  `json:"cents"`
}

// shopOrders is the backend's answer to a request for orders. Count is the number of all.
type shopOrders struct {
	Count  int         `json:"count"`
	Orders []shopOrder `json:"orders"`
}

// shopClient gives an answer up later than the backend and the frontend do.
var shopClient = &http.Client{Timeout: 20 * time.Second}

// shopURL is the address of a Service of the shop.
func (n namespaced) shopURL(ctx context.Context, service string) string {
	GinkgoHelper()
	s := &corev1.Service{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: n.name, Name: service}, s)).To(Succeed())
	return "http://" + s.Spec.ClusterIP + ":8080"
}

// request sends a request to the shop, and decodes the JSON of a successful answer.
func request(ctx context.Context, method, address, key string, body []byte, answer any) error {
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Idempotency-Key", key)
	response, err := shopClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close() // only read
	data, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: status %d: %s", method, address, response.StatusCode, data)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(data, answer)
}

func tryOrder(ctx context.Context, backend, key string) (o shopOrder, err error) {
	return o, request(ctx, http.MethodPost, backend+"/orders", key, []byte(`{"product": "espresso", "quantity": 2}`), &o)
}

// placeOrder places an order. Endpoints and kube-proxy may be later than the pods.
func placeOrder(ctx context.Context, backend, key string) (o shopOrder) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) (err error) {
		o, err = tryOrder(ctx, backend, key)
		return err
	}).WithTimeout(soon).Should(Succeed())
	return o
}

// getOrders returns the orders with these keys.
func getOrders(ctx context.Context, backend string, keys ...string) (found shopOrders) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) error {
		return request(ctx, http.MethodGet, backend+"/orders?keys="+strings.Join(keys, ","), "", nil, &found)
	}).WithTimeout(soon).Should(Succeed())
	return found
}

var (
	formKey   = regexp.MustCompile(`name="key" value="([A-Z0-9]+)"`)
	confirmed = regexp.MustCompile(`<b id="confirmed">(\d+)</b>`)
)

// buy places an order as a browser does: it fetches the page, sends a form, and follows the redirection. It returns the orders with the
// new one, and the last page.
func buy(ctx context.Context, page string, before []shopOrder) (orders []shopOrder, body string) {
	GinkgoHelper()
	jar, err := cookiejar.New(nil)
	Expect(err).NotTo(HaveOccurred())
	browser := &http.Client{Timeout: shopClient.Timeout, Jar: jar}
	Eventually(ctx, func(ctx context.Context) (status int, err error) {
		status, body, err = fetch(ctx, browser, page, "")
		return status, err
	}).WithTimeout(soon).Should(Equal(http.StatusOK))
	key := formKey.FindStringSubmatch(body)
	Expect(key).NotTo(BeNil(), body)
	response, err := browser.PostForm(page+"/orders", url.Values{"product": {"espresso"}, "key": {key[1]}})
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close() // only read
	data, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	body = string(data)
	Expect(response.StatusCode).To(Equal(http.StatusOK), body)
	id := confirmed.FindStringSubmatch(body)
	Expect(id).NotTo(BeNil(), body)
	o := shopOrder{Key: key[1], Product: "espresso", Quantity: 1, Cents: 2490}
	_, err = fmt.Sscan(id[1], &o.ID)
	Expect(err).NotTo(HaveOccurred())
	return append(before, o), body
}

// browse opens a page in headless Chromium, saves a screenshot in dist/shop.png, and returns the DOM.
func browse(ctx context.Context, page string) string {
	GinkgoHelper()
	var browser string
	for _, name := range []string{"chromium-headless-shell", "chromium"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	Expect(browser).NotTo(BeEmpty(), "hack/browser.sh installs one")
	screenshot, err := filepath.Abs("../../dist/shop.png")
	Expect(err).NotTo(HaveOccurred())
	Expect(os.MkdirAll(filepath.Dir(screenshot), 0o755)).To(Succeed())
	run := func(arguments ...string) string {
		GinkgoHelper()
		// Its sandbox does not run as root. The page is ours.
		arguments = append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server", "--hide-scrollbars",
			"--window-size=900,700", "--user-data-dir=" + GinkgoT().TempDir()}, arguments...)
		command := exec.CommandContext(ctx, browser, append(arguments, page)...)
		command.Stderr = GinkgoWriter
		output, err := command.Output()
		Expect(err).NotTo(HaveOccurred())
		return string(output)
	}
	run("--screenshot=" + screenshot)
	return run("--dump-dom")
}

// ledger is a client that places orders, one after another. An order without an answer is sent again until it has one.
type ledger struct {
	stop  context.CancelFunc
	ended chan struct{}
	// These are for after the end: orders with two different answers, the number of requests without an answer, and the longest time until
	// an order was acknowledged.
	changed []string
	failed  int
	slowest time.Duration

	mutex sync.Mutex
	all   []shopOrder
}

func startLedger(ctx context.Context, backend string) *ledger {
	ctx, cancel := context.WithCancel(ctx)
	l := &ledger{stop: cancel, ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		for i := 0; i < maxOrders && ctx.Err() == nil; i++ {
			if !l.place(context.WithoutCancel(ctx), backend, fmt.Sprintf("ledger-%04d", i), i%10 == 0) {
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(orderPause):
			}
		}
	}()
	return l
}

// place places an order, and a second time if it is to be repeated. It returns false if there was no answer for too long.
func (l *ledger) place(ctx context.Context, backend, key string, repeated bool) bool {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	begun := time.Now()
	acknowledged := l.insist(ctx, backend, key)
	if acknowledged.Key == "" {
		return false
	}
	l.slowest = max(l.slowest, time.Since(begun))
	l.mutex.Lock()
	l.all = append(l.all, acknowledged)
	l.mutex.Unlock()
	if !repeated {
		return true
	}
	again := l.insist(ctx, backend, key)
	if again != acknowledged {
		l.changed = append(l.changed, fmt.Sprintf("%+v, then %+v", acknowledged, again))
	}
	return again.Key != ""
}

// insist sends an order until it is acknowledged. It returns an empty order if the context ends before.
func (l *ledger) insist(ctx context.Context, backend, key string) shopOrder {
	for ctx.Err() == nil {
		o, err := tryOrder(ctx, backend, key)
		if err == nil {
			return o
		}
		l.failed++
		select {
		case <-ctx.Done():
		case <-time.After(orderPause):
		}
	}
	return shopOrder{}
}

// acknowledged are the acknowledged orders so far.
func (l *ledger) acknowledged() []shopOrder {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Clone(l.all)
}

// end stops the client after the answer to its last order. It may be called repeatedly.
func (l *ledger) end() {
	l.stop()
	<-l.ended
}
