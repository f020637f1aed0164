package standin

import v1 "github.com/google/go-containerregistry/pkg/v1"

// The Debian releases of the images, with the versions of their packages.
const (
	bullseye = "bullseye" // PostgreSQL 13
	bookworm = "bookworm" // PostgreSQL 15, nginx 1.22, MariaDB 10.11, Redis 7.0
	trixie   = "trixie"   // PostgreSQL 17, Valkey 8
	forky    = "forky"    // PostgreSQL 18; not released yet
)

func debian(suite string) *Recipe {
	return &Recipe{
		Name: "debian-" + suite, Suite: suite,
		Images:  versions("docker.io/library/debian", suite, suite+"-slim"),
		Without: []string{"/usr/share/zoneinfo/right"},
		Config:  v1.Config{Cmd: []string{"bash"}, Env: []string{defaultPath}},
	}
}

// One nginx image replaces all versions: Fettle's tests do not depend on the version.
func webServers() []*Recipe {
	nginx := v1.Config{
		Entrypoint: []string{"/docker-entrypoint.sh"}, Cmd: []string{"nginx", "-g", "daemon off;"}, StopSignal: "SIGQUIT",
		Env: []string{defaultPath}, ExposedPorts: map[string]struct{}{"80/tcp": {}},
	}
	unprivileged := *nginx.DeepCopy()
	unprivileged.User, unprivileged.ExposedPorts = "101", map[string]struct{}{"8080/tcp": {}}
	return []*Recipe{
		debian(bookworm),
		{
			Name: "nginx", From: "debian-bookworm", Cluster: true,
			Images:   versions("docker.io/library/nginx", "1.27", "1.21", "1.25", "1.26", "1.28", "alpine", "stable", "stable-alpine", "latest"),
			Packages: []string{"nginx"},
			Files:    []string{"nginx"},
			Folders:  map[string]int64{"/docker-entrypoint.d": 0o755},
			Before:   systemUser("nginx", "101", "/nonexistent"),
			After: `rm -rf /etc/nginx/sites-available /etc/nginx/sites-enabled /etc/nginx/modules-enabled /etc/nginx/snippets /var/www
ln -sf /dev/stdout /var/log/nginx/access.log
ln -sf /dev/stderr /var/log/nginx/error.log
for d in client proxy fastcgi uwsgi scgi; do install -d -o nginx -g root -m 0755 /var/cache/nginx /var/cache/nginx/${d}_temp; done
test -s /usr/share/nginx/html/index.html`,
			Config: nginx,
		},
		{
			Name: "nginx-unprivileged", From: "nginx", Cluster: true,
			Images: versions("docker.io/nginxinc/nginx-unprivileged", "1.27", "1.25", "alpine", "stable", "stable-alpine", "latest"),
			Files:  []string{"nginx-unprivileged"},
			Config: unprivileged,
		},
	}
}

func databases() []*Recipe {
	return []*Recipe{
		postgres("15", bookworm),
		mysql(),
		keyValue("redis", bookworm, []string{"redis-server", "redis-tools"}, versions("docker.io/library/redis", "7", "7-alpine", "latest")),
		debian(trixie),
		postgres("17", trixie),
		keyValue("valkey", trixie, []string{"valkey-server", "valkey-tools"}, versions("docker.io/valkey/valkey", "8", "8-alpine", "latest")),
		debian(bullseye),
		postgres("13", bullseye),
		onDemand(debian(forky)),
		onDemand(postgres("18", forky)),
		postgresAlpine("17", trixie),
	}
}

func onDemand(r *Recipe) *Recipe {
	r.OnDemand = true
	return r
}

func mysql() *Recipe {
	return &Recipe{
		Name: "mysql", From: "debian-" + bookworm,
		Images:   append(versions("docker.io/library/mysql", "8", "8.0", "latest"), versions("docker.io/library/mariadb", "10.11", "latest")...),
		Packages: []string{"mariadb-server", "mariadb-client"},
		Files:    []string{"mysql", "gosu"},
		Folders:  map[string]int64{"/docker-entrypoint-initdb.d": 0o755, "/run/mysqld": 0o777},
		Before:   systemUser("mysql", "999", "/var/lib/mysql"),
		After: `rm -rf /var/lib/mysql
install -d -o mysql -g mysql -m 0777 /var/lib/mysql`,
		Config: v1.Config{
			Entrypoint: []string{"docker-entrypoint.sh"}, Cmd: []string{"mysqld"}, Env: []string{defaultPath}, WorkingDir: "/",
			ExposedPorts: map[string]struct{}{"3306/tcp": {}},
			Volumes:      map[string]struct{}{"/var/lib/mysql": {}},
		},
	}
}

func keyValue(name, suite string, packages, images []string) *Recipe {
	return &Recipe{
		Name: name, From: "debian-" + suite,
		Images:   images,
		Packages: packages,
		Files:    []string{name, "gosu"},
		Before:   systemUser(name, "999", "/data"),
		After:    "install -d -o " + name + " -g " + name + " -m 0755 /data",
		Config: v1.Config{
			Entrypoint: []string{"docker-entrypoint.sh"}, Cmd: []string{name + "-server"}, WorkingDir: "/data", Env: []string{defaultPath},
			ExposedPorts: map[string]struct{}{"6379/tcp": {}},
			Volumes:      map[string]struct{}{"/data": {}},
		},
	}
}
