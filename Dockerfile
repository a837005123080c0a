# The image of the operator: one static program, the authorities of the system, nothing else.
#
#   docker build -t kantor .                                   builds everything from this folder
#   docker build -t kantor --build-arg FROM=prebuilt FOLDER    takes FOLDER/kantor and FOLDER/etc as they are
ARG FROM=build
ARG RUST=rust:1.95-bookworm

FROM ${RUST} AS build
WORKDIR /source
COPY . .
# The C library is linked statically, for the program alone: its dependencies need not be built in another way.
RUN cargo rustc --release --locked --bin kantor -- -C target-feature=+crt-static \
 && install -D target/release/kantor /image/kantor \
 && install -D -m 0644 /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ca-certificates.crt

FROM scratch AS prebuilt
COPY . /image/

FROM ${FROM} AS content

FROM scratch
COPY --from=content /image/ /
# A number: a name could not be told from that of root where there is no /etc/passwd.
USER 65532:65532
EXPOSE 8081
ENTRYPOINT ["/kantor"]
CMD ["controller"]
LABEL org.opencontainers.image.title="kantor" \
      org.opencontainers.image.description="Multi-cluster platform operator for Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0"
