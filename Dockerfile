# The operator: one static binary beside CA certificates and nothing else. `make image` builds the same without a
# container engine.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=0.0.1
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY main.go ./
COPY api/ api/
COPY controllers/ controllers/
COPY internal/ internal/
COPY config/admission/ config/admission/
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X github.com/fettle-dev/fettle/internal/cmd.Version=v$VERSION" -o /fettle .

FROM gcr.io/distroless/static:nonroot
COPY --from=build /fettle /fettle
USER 65532:65532
ENTRYPOINT ["/fettle"]
