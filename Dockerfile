# The operator: two static binaries beside CA certificates and nothing else. `make image` builds the same without a
# container engine.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETARCH
ARG VERSION=0.0.1
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY main.go ./
COPY cmd/ cmd/
COPY api/ api/
COPY controllers/ controllers/
COPY internal/ internal/
COPY config/admission/ config/admission/
COPY hack/build.sh hack/
RUN hack/build.sh /fettle $TARGETARCH

FROM gcr.io/distroless/static:nonroot
COPY --from=build /fettle /fettle-wal /
USER 65532:65532
ENTRYPOINT ["/fettle"]
