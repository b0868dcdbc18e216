# Tidegate without Spark: `tidegate serve`, `sql`, `ingest --no-spark`, maintenance. See docs/operations.md, "In a container".
#
#   docker build -t tidegate .
#   docker run -p 8080:8080 -v lake:/var/lib/tidegate -e TIDEGATE_TOKEN=… -e TIDEGATE_PASSWORD=… tidegate

FROM python:3.11-slim-bookworm AS build
WORKDIR /build
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/tidegate
RUN /opt/tidegate/bin/pip install --no-cache-dir --constraint constraints.txt hatchling
RUN /opt/tidegate/bin/pip install --no-cache-dir --constraint constraints.txt --no-build-isolation '.[cli,server,ingest,postgres]'

FROM python:3.11-slim-bookworm
RUN useradd --uid 10001 --user-group --create-home --home-dir /var/lib/tidegate --shell /usr/sbin/nologin tidegate
COPY --from=build /opt/tidegate /opt/tidegate
ENV PATH=/opt/tidegate/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    TIDEGATE_LAKE=/var/lib/tidegate/lake
USER tidegate
WORKDIR /var/lib/tidegate
VOLUME /var/lib/tidegate
EXPOSE 8080 5433
# /health needs no token: it answers 200 if the metadata can be read, and 503 if not.
HEALTHCHECK --interval=30s --timeout=10s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/health', timeout=8)"]
ENTRYPOINT ["tidegate"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8080", "--pg", "5433", "--log-format", "json"]
