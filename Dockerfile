# observant, with what watching and PostgreSQL need. With a browser for pages that need one:
#   docker build --build-arg EXTRAS=watch,postgres,notify,browser --build-arg BROWSER=chromium-headless-shell .
ARG PYTHON=3.13
FROM python:${PYTHON}-slim AS build
ARG EXTRAS=watch,postgres,notify
COPY . /src
RUN python -m venv /opt/observant \
    && /opt/observant/bin/pip install --no-cache-dir "/src[${EXTRAS}]"

FROM python:${PYTHON}-slim
ARG BROWSER=""
RUN if [ -n "${BROWSER}" ]; then apt-get update \
    && apt-get install -y --no-install-recommends "${BROWSER}" && rm -rf /var/lib/apt/lists/*; fi \
    && useradd --create-home --home-dir /data observant
COPY --from=build /opt/observant /opt/observant
ENV PATH=/opt/observant/bin:$PATH \
    NUMBA_CACHE_DIR=/data/.cache/numba
USER observant
WORKDIR /data
VOLUME /data
EXPOSE 8321
HEALTHCHECK --interval=30s --start-period=120s --timeout=10s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8321/health', timeout=5)"]
ENTRYPOINT ["observant"]
CMD ["serve", "--host", "0.0.0.0"]
