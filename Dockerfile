# One image for the service, the Ray head and the Ray workers, so that all run the same code on the same Ray.
FROM python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7 AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_RETRIES=10
WORKDIR /build
COPY requirements-build.lock requirements-run.lock requirements-sbom.lock ./
RUN python -m venv /opt/recompose
RUN /opt/recompose/bin/pip install --require-hashes -r requirements-run.lock
RUN python -m venv --without-pip /opt/build
RUN /opt/recompose/bin/pip --python /opt/build/bin/python install --require-hashes -r requirements-build.lock
COPY . .
RUN /opt/recompose/bin/pip --python /opt/build/bin/python wheel --no-deps --no-build-isolation --wheel-dir /wheels .
RUN /opt/recompose/bin/pip install --no-deps --no-index --find-links /wheels recompose
# The bill of materials of all Python packages in the image. That of Debian's packages: docker buildx build --sbom=true.
RUN python -m venv --without-pip /opt/sbom
RUN /opt/recompose/bin/pip --python /opt/sbom/bin/python install --require-hashes -r requirements-sbom.lock
RUN /opt/sbom/bin/cyclonedx-py environment --output-reproducible --of JSON -o /opt/recompose/sbom.cdx.json /opt/recompose/bin/python

FROM python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7
LABEL org.opencontainers.image.title="recompose" org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --system --uid 10001 --user-group --create-home --home-dir /home/recompose recompose
# For Spark: data sets, tables of telemetry, backfill, live sources and sinks. Debian's own version, which is 17 or 21.
RUN apt-get update && apt-get install --yes --no-install-recommends default-jre-headless && rm -rf /var/lib/apt/lists/*
# A new volume takes over the owner of the directory it covers: the state, and what Ray's processes share.
RUN install -d -o recompose -g recompose -m 0700 /var/lib/recompose
RUN install -d -o recompose -g recompose -m 0700 /tmp/ray
COPY --from=build /opt/recompose /opt/recompose
ENV PATH=/opt/recompose/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    NUMBA_CACHE_DIR=/tmp/numba \
    RAY_USAGE_STATS_ENABLED=0
# Spark's classes, parsed once for all JVMs.
RUN python -m recompose.datapipe.spark.class_archive
USER recompose
WORKDIR /var/lib/recompose
VOLUME /var/lib/recompose
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=4)"]
# Everybody who reaches the port may command the service: it refuses to start without RECOMPOSE_TOKEN.
ENTRYPOINT ["recompose"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8080", "--state", "/var/lib/recompose"]
